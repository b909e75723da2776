-- What people write about stored plans, and an index to count runs by.

CREATE TABLE tag (
    plan INTEGER NOT NULL REFERENCES plan ON DELETE CASCADE,
    name TEXT    NOT NULL,
    PRIMARY KEY (plan, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE note (
    note            INTEGER PRIMARY KEY,
    plan            INTEGER NOT NULL REFERENCES plan ON DELETE CASCADE,
    written_unix_ns INTEGER NOT NULL,
    text            TEXT    NOT NULL
) STRICT;

CREATE INDEX note_by_plan ON note (plan);
CREATE INDEX run_by_status ON run (plan, status);
