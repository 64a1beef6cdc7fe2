-- Jobs that ended long ago lie in a table of their own: what the loop reads and writes stays as small as the work at hand.

-- Rows keep their number and all that is ever asked of an ended job.  A job is in exactly one of the two tables; its
-- place in job_counts stays as it was.
CREATE TABLE archived_jobs (
    number   INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    kind     TEXT NOT NULL,
    variant  TEXT NOT NULL,
    key      TEXT NOT NULL,
    body     BLOB NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('done', 'dead', 'cancelled')),
    priority INTEGER NOT NULL,
    node     TEXT,
    attempts INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    renewals INTEGER NOT NULL,
    seconds  REAL NOT NULL,
    pause    REAL NOT NULL,
    progress REAL NOT NULL,
    time     REAL NOT NULL,
    error    TEXT
) STRICT;
CREATE INDEX archived_dead ON archived_jobs (number) WHERE state = 'dead';

-- No statement can delete a job without archiving it, and a live one cannot be archived: the check above refuses it.
CREATE TRIGGER jobs_archived AFTER DELETE ON jobs BEGIN
    INSERT INTO archived_jobs VALUES (
        old.number, old.id, old.kind, old.variant, old.key, old.body, old.state, old.priority, old.node, old.attempts,
        old.fence, old.renewals, old.seconds, old.pause, old.progress, old.time, old.error);
END;

CREATE VIEW every_job AS
SELECT number, id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause,
    progress, time, error FROM jobs
UNION ALL
SELECT number, id, kind, variant, key, body, state, priority, node, attempts, fence, NULL, renewals, seconds, pause,
    progress, time, error FROM archived_jobs;

-- Decisions are found by their model too: the reason of a promotion is one look-up, however many there are.
INSERT OR IGNORE INTO record_index
SELECT kind, 'model', json_extract(CAST(body AS TEXT), '$.model'), id FROM records WHERE kind = 'decision';
