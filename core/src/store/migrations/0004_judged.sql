-- What the command line that started a plan asked to be judged, as JSON; NULL: nothing.

ALTER TABLE plan ADD COLUMN judged TEXT;
