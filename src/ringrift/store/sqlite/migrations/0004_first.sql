-- Stores written before this schema (versions 1 to 3) are refused: their events have other names.

-- The log.  A position is never reused: compaction always leaves the newest row.
CREATE TABLE log (
    position    INTEGER PRIMARY KEY,
    id          TEXT NOT NULL,
    name        TEXT NOT NULL,
    version     INTEGER NOT NULL,
    time        REAL NOT NULL,
    node        TEXT NOT NULL,
    source      TEXT NOT NULL,
    labels      TEXT NOT NULL,
    correlation TEXT NOT NULL,
    cause       TEXT NOT NULL,
    trace       TEXT NOT NULL,
    -- Events in a row that caused each other: a loop is one that grows without end.
    depth       INTEGER NOT NULL,
    body        BLOB NOT NULL
) STRICT;
-- Ids sort by time, so this index grows at its end.
CREATE UNIQUE INDEX log_id ON log (id);

CREATE TABLE readers (
    reader   TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    -- A reader that left events unread for too long does not keep the log from being compacted.
    lapsed   INTEGER NOT NULL DEFAULT 0 CHECK (lapsed IN (0, 1))
) STRICT, WITHOUT ROWID;

-- A delivery that failed.  A dead letter is a state of it, not another table.
CREATE TABLE deliveries (
    reader   TEXT NOT NULL,
    position INTEGER NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('parked', 'dead', 'done', 'discarded')),
    attempts INTEGER NOT NULL,
    pause    REAL NOT NULL,
    error    TEXT NOT NULL,
    first    REAL NOT NULL,
    last     REAL NOT NULL,
    PRIMARY KEY (reader, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_state ON deliveries (state, position);

-- Jobs are never deleted while they count, and have exactly one state.
CREATE TABLE jobs (
    number   INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    kind     TEXT NOT NULL,
    variant  TEXT NOT NULL,
    key      TEXT NOT NULL,
    body     BLOB NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('ready', 'claimed', 'done', 'dead', 'cancelled')),
    priority INTEGER NOT NULL,
    node     TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    fence    INTEGER NOT NULL DEFAULT 0,
    holder   TEXT,
    renewals INTEGER NOT NULL DEFAULT 0,
    seconds  REAL NOT NULL DEFAULT 0,
    pause    REAL NOT NULL DEFAULT 0,
    progress REAL NOT NULL DEFAULT 0,
    outputs  BLOB NOT NULL DEFAULT (CAST('[]' AS BLOB)),
    time     REAL NOT NULL,
    error    TEXT,
    -- The trace context of the code that enqueued it.
    context  TEXT NOT NULL DEFAULT ''
) STRICT;
-- Partial indexes: finished rows are in none of them, so a million of those do not slow a claim.
CREATE INDEX jobs_ready ON jobs (kind, node, priority DESC, number) WHERE state = 'ready' AND pause = 0;
CREATE INDEX jobs_paused ON jobs (number) WHERE state = 'ready' AND pause > 0;
CREATE INDEX jobs_claimed ON jobs (holder, number) WHERE state = 'claimed';
CREATE INDEX jobs_dead ON jobs (number) WHERE state = 'dead';
CREATE UNIQUE INDEX jobs_key ON jobs (key) WHERE state IN ('ready', 'claimed');

-- How many jobs there are by kind, variant and state: updated by triggers in the same transaction as every change.
CREATE TABLE job_counts (
    kind    TEXT NOT NULL,
    variant TEXT NOT NULL,
    state   TEXT NOT NULL,
    count   INTEGER NOT NULL,
    PRIMARY KEY (variant, kind, state)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER jobs_enqueued AFTER INSERT ON jobs BEGIN
    INSERT INTO job_counts VALUES (new.kind, new.variant, new.state, 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
CREATE TRIGGER jobs_moved AFTER UPDATE OF state ON jobs WHEN old.state <> new.state BEGIN
    UPDATE job_counts SET count = count - 1 WHERE variant = old.variant AND kind = old.kind AND state = old.state;
    INSERT INTO job_counts VALUES (new.kind, new.variant, new.state, 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;

CREATE TABLE roles (
    role     TEXT PRIMARY KEY,
    holder   TEXT NOT NULL,
    term     INTEGER NOT NULL,
    renewals INTEGER NOT NULL,
    seconds  REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE records (
    kind TEXT NOT NULL,
    id   TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE record_index (
    kind  TEXT NOT NULL,
    field TEXT NOT NULL,
    value TEXT NOT NULL,
    id    TEXT NOT NULL,
    PRIMARY KEY (kind, field, value, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX record_index_id ON record_index (kind, id);

-- Names get numbers in the order of their first use.  A link between numbers is small, and rows that were written
-- together lie together: a million links are read in a fraction of a second.
CREATE TABLE names (
    number INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE links (
    child  INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    PRIMARY KEY (child, parent)
) STRICT, WITHOUT ROWID;
CREATE INDEX links_parent ON links (parent, child);

-- How a blob was made: one row for each node that made it, never one for each game in it.
CREATE TABLE origins (
    blob       INTEGER NOT NULL,
    node       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    variant    TEXT NOT NULL,
    time       REAL NOT NULL,
    games      INTEGER NOT NULL,
    job        TEXT NOT NULL,
    job_kind   TEXT NOT NULL,
    key        TEXT NOT NULL,
    seed       INTEGER NOT NULL,
    generation INTEGER,
    model      INTEGER,
    samples    INTEGER,
    workload   TEXT NOT NULL,
    version    TEXT NOT NULL,
    release    TEXT NOT NULL,
    settings   TEXT NOT NULL,
    PRIMARY KEY (blob, node)
) STRICT, WITHOUT ROWID;
-- A covering index for queries about the games of a node.
CREATE INDEX origins_node ON origins (node, kind, time, variant, games);
CREATE INDEX origins_kind ON origins (kind, time);
