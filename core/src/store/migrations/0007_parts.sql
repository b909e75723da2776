-- Which part of a plan this is, or that parts were joined in it, as JSON; NULL: neither.

ALTER TABLE plan ADD COLUMN sharding TEXT;
