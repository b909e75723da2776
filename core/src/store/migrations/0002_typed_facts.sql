-- Facts as types: kinds of metrics in a table of their own, values of knobs and facts of
-- disturbances as JSON, guests and pools as what they are. core/src/store/migrate.rs fills
-- `metric` from `metric_1` and `guest` from readings of knobs.

-- What a metric is. `quantile_ppm` belongs to the statistic `quantile`. `subject` is the latency
-- or the role that the metric is of; NULL: the worker set.
CREATE TABLE metric_kind (
    metric_kind  INTEGER PRIMARY KEY,
    name         TEXT NOT NULL,
    unit         TEXT NOT NULL,
    direction    TEXT NOT NULL,
    subject      TEXT,
    statistic    TEXT NOT NULL,
    quantile_ppm INTEGER CHECK ((quantile_ppm IS NOT NULL) = (statistic = 'quantile')),
    importance   TEXT NOT NULL
) STRICT;

-- NULL is no different from NULL here; 0 is no text.
CREATE UNIQUE INDEX metric_kind_once ON metric_kind
    (name, unit, direction, ifnull(subject, 0), statistic, ifnull(quantile_ppm, -1), importance);

ALTER TABLE metric RENAME TO metric_1;

CREATE TABLE metric (
    run         INTEGER NOT NULL,
    worker_set  INTEGER NOT NULL,
    metric      INTEGER NOT NULL,
    metric_kind INTEGER NOT NULL REFERENCES metric_kind,
    value       REAL,
    unknown     TEXT,
    PRIMARY KEY (run, worker_set, metric),
    CHECK ((value IS NULL) <> (unknown IS NULL)),
    FOREIGN KEY (run, worker_set) REFERENCES worker_set ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- A guest that runs were made in. `run.guest` is NULL where a run was made on a machine as it is.
CREATE TABLE guest (
    guest INTEGER PRIMARY KEY,
    json  TEXT NOT NULL UNIQUE
) STRICT;

ALTER TABLE run ADD COLUMN guest INTEGER REFERENCES guest;
-- The CPUs of the pool, where the plan names one.
ALTER TABLE run ADD COLUMN pool_cpus TEXT;

-- `asked` and `got` are values as the event stream has them.
UPDATE knob_reading SET asked = json_object('text', asked),
                        got = iif(got IS NULL, NULL, json_object('text', got));

-- `json` is the fact as the event stream has it.
ALTER TABLE disturbance RENAME COLUMN detail TO json;
UPDATE disturbance SET json = json_object('kind', 'text', 'of', kind, 'detail', json);

-- What is stored is exported in the newest form of the stream.
UPDATE plan SET event_schema = 2;
