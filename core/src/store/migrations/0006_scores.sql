-- Scoreboards that `schedlab score --save` keeps: what one was of, when and where, and all of it as JSON
-- (docs/score.md), compressed (zlib, RFC 1950). What people write about them, as about plans.

CREATE TABLE score (
    score           INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE,
    title           TEXT    NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    hostname        TEXT    NOT NULL,
    kernel_release  TEXT    NOT NULL,
    source          TEXT,
    wall_ns         INTEGER NOT NULL,
    json            BLOB    NOT NULL
) STRICT;

CREATE TABLE score_tag (
    score INTEGER NOT NULL REFERENCES score ON DELETE CASCADE,
    name  TEXT    NOT NULL,
    PRIMARY KEY (score, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE score_note (
    note            INTEGER PRIMARY KEY,
    score           INTEGER NOT NULL REFERENCES score ON DELETE CASCADE,
    written_unix_ns INTEGER NOT NULL,
    text            TEXT    NOT NULL
) STRICT;

CREATE INDEX score_note_by_score ON score_note (score);
