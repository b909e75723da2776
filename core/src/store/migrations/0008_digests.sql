-- Digests of what is stored, checked when it is read (core/src/store/digest.rs; docs/formats.md has what each is of).
-- NULL, or no row: it was stored before there were any.

-- Of the run itself and of its rows in each of the tables that hang on it.
ALTER TABLE run ADD COLUMN digests BLOB;

-- Of a plan: `record` of all that is stored of it but its runs, `runs` how many these are, and `digest` of them.
CREATE TABLE plan_digest (
    plan   INTEGER PRIMARY KEY REFERENCES plan ON DELETE CASCADE,
    record INTEGER NOT NULL,
    runs   INTEGER NOT NULL,
    digest INTEGER NOT NULL
) STRICT;

-- Of a score, its tags and its notes.
CREATE TABLE score_digest (
    score  INTEGER PRIMARY KEY REFERENCES score ON DELETE CASCADE,
    record INTEGER NOT NULL
) STRICT;
