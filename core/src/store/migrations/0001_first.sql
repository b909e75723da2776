-- The first schema. A released migration is never edited: a change is a new file.
-- Described in docs/formats.md. Times are nanoseconds. 64-bit unsigned numbers are stored in
-- SQLite's signed integers bit by bit. NULL is "unknown", and then a reason stands next to it.

-- One execution of a plan.
CREATE TABLE plan (
    plan            INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE,
    event_schema    INTEGER NOT NULL,
    title           TEXT    NOT NULL,
    backend         TEXT    NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    runs_total      INTEGER NOT NULL,
    source          TEXT    NOT NULL,
    json            TEXT    NOT NULL
) STRICT;

CREATE INDEX plan_by_start ON plan (started_unix_ns);

-- The machine at the start of a plan and at each resumption, numbered from 0.
CREATE TABLE environment (
    plan            INTEGER NOT NULL REFERENCES plan ON DELETE CASCADE,
    environment     INTEGER NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    ended           TEXT,
    hostname        TEXT    NOT NULL,
    cpu_model       TEXT,
    kernel_release  TEXT    NOT NULL,
    kernel_version  TEXT    NOT NULL,
    boot_id         TEXT,
    virtualisation  TEXT,
    json            TEXT    NOT NULL,
    PRIMARY KEY (plan, environment)
) STRICT, WITHOUT ROWID;

CREATE TABLE cell (
    plan    INTEGER NOT NULL REFERENCES plan ON DELETE CASCADE,
    cell    INTEGER NOT NULL,
    variant TEXT    NOT NULL,
    work    TEXT    NOT NULL,
    json    TEXT    NOT NULL,
    PRIMARY KEY (plan, cell)
) STRICT, WITHOUT ROWID;

CREATE INDEX cell_by_work ON cell (work, variant);

-- Ascending `run` is the order in which runs ended.
CREATE TABLE run (
    run             INTEGER PRIMARY KEY,
    plan            INTEGER NOT NULL,
    environment     INTEGER NOT NULL,
    round           INTEGER NOT NULL,
    cell            INTEGER NOT NULL,
    status          TEXT    NOT NULL CHECK (status IN ('done', 'failed', 'skipped')),
    reason          TEXT    CHECK ((reason IS NULL) = (status = 'done')),
    started_unix_ns INTEGER CHECK ((started_unix_ns IS NOT NULL) = (status = 'done')),
    measured_ns     INTEGER CHECK ((measured_ns IS NOT NULL) = (status = 'done')),
    overhead_cpu_ns INTEGER,
    overhead_unknown TEXT,
    UNIQUE (plan, round, cell),
    CHECK (status <> 'done' OR (overhead_cpu_ns IS NULL) <> (overhead_unknown IS NULL)),
    FOREIGN KEY (plan, environment) REFERENCES environment ON DELETE CASCADE,
    FOREIGN KEY (plan, cell) REFERENCES cell ON DELETE CASCADE
) STRICT;

-- What follows hangs on a run and is clustered by it: reading a plan's runs in order reads
-- these tables in order.
CREATE TABLE worker_set (
    run        INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    worker_set INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    workload   TEXT    NOT NULL,
    ops        TEXT    NOT NULL,
    background INTEGER NOT NULL CHECK (background IN (0, 1)),
    PRIMARY KEY (run, worker_set)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric (
    run        INTEGER NOT NULL,
    worker_set INTEGER NOT NULL,
    metric     INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    unit       TEXT    NOT NULL,
    direction  TEXT    NOT NULL,
    value      REAL,
    unknown    TEXT,
    PRIMARY KEY (run, worker_set, metric),
    CHECK ((value IS NULL) <> (unknown IS NULL)),
    FOREIGN KEY (run, worker_set) REFERENCES worker_set ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- `hdr` is an HdrHistogram, V2 encoding, compressed; `exact` names the samples that it
-- rounds, as a JSON list of [value, count].
CREATE TABLE histogram (
    run        INTEGER NOT NULL,
    worker_set INTEGER NOT NULL,
    histogram  INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    samples    INTEGER NOT NULL,
    min_ns     INTEGER,
    max_ns     INTEGER,
    hdr        BLOB    NOT NULL,
    exact      TEXT,
    PRIMARY KEY (run, worker_set, histogram),
    FOREIGN KEY (run, worker_set) REFERENCES worker_set ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Workers are numbered through all sets of the run. `unknown` is a JSON object from the
-- column that is NULL to the reason.
CREATE TABLE worker (
    run                  INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    worker               INTEGER NOT NULL,
    worker_set           INTEGER NOT NULL,
    role                 TEXT    NOT NULL,
    tid                  INTEGER NOT NULL,
    ops                  INTEGER NOT NULL,
    wall_ns              INTEGER NOT NULL,
    cpu_ns               INTEGER NOT NULL,
    counted_wall_ns      INTEGER NOT NULL,
    voluntary_switches   INTEGER,
    involuntary_switches INTEGER,
    migrations           INTEGER,
    run_queue_wait_ns    INTEGER,
    unknown              TEXT,
    PRIMARY KEY (run, worker)
) STRICT, WITHOUT ROWID;

-- One worker in one window; `window_index` as the runner counted, warm-up included. A failed
-- run has windows and no workers, so this hangs on the run alone.
CREATE TABLE worker_window (
    run          INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    window_index INTEGER NOT NULL,
    worker       INTEGER NOT NULL,
    end_at_ns    INTEGER NOT NULL,
    wall_ns      INTEGER NOT NULL,
    ops          INTEGER NOT NULL,
    cpu_ns       INTEGER NOT NULL,
    peak_ns      INTEGER NOT NULL,
    PRIMARY KEY (run, window_index, worker)
) STRICT, WITHOUT ROWID;

CREATE TABLE knob_reading (
    run          INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    knob_reading INTEGER NOT NULL,
    knob         TEXT    NOT NULL,
    asked        TEXT    NOT NULL,
    got          TEXT,
    unknown      TEXT,
    PRIMARY KEY (run, knob_reading),
    CHECK ((got IS NULL) <> (unknown IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE disturbance (
    run         INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    disturbance INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    share       REAL,
    detail      TEXT    NOT NULL,
    PRIMARY KEY (run, disturbance)
) STRICT, WITHOUT ROWID;
