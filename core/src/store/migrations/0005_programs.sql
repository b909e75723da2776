-- What is kept of the programs that a worker set ran: what their version command wrote, and the end
-- of their output, compressed (zlib, RFC 1950).

CREATE TABLE program (
    run        INTEGER NOT NULL,
    worker_set INTEGER NOT NULL,
    version    TEXT,
    output     BLOB    NOT NULL,
    PRIMARY KEY (run, worker_set),
    FOREIGN KEY (run, worker_set) REFERENCES worker_set ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
