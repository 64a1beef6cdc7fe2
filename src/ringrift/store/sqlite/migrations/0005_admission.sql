-- Jobs and the tasks of programs share rows and counters: every limit on what runs is a look-up of a few counters.
--
-- A task is a row of kind 'task:<type>'.  It is claimed from its birth to its end and is never ready; its fence is its
-- own number, so that no later task has it.

-- The variant is at the end of the index: a claim that leaves out variants reads no rows of the table for them.
DROP INDEX jobs_ready;
CREATE INDEX jobs_ready ON jobs (kind, node, priority DESC, number, variant) WHERE state = 'ready' AND pause = 0;
CREATE INDEX jobs_tasks ON jobs (number) WHERE kind >= 'task:' AND kind < 'task;';

-- How many jobs there are by kind, variant, state and, while one is claimed, holder ('' otherwise).
DROP TRIGGER jobs_enqueued;
DROP TRIGGER jobs_moved;
DROP TABLE job_counts;
CREATE TABLE job_counts (
    kind    TEXT NOT NULL,
    variant TEXT NOT NULL,
    state   TEXT NOT NULL,
    holder  TEXT NOT NULL,
    count   INTEGER NOT NULL,
    PRIMARY KEY (variant, kind, state, holder)
) STRICT, WITHOUT ROWID;
-- A change of a count does not touch it: only a new row does.
CREATE INDEX job_counts_state ON job_counts (state, kind);
INSERT INTO job_counts
SELECT kind, variant, state, ifnull(holder, ''), count(*) FROM jobs GROUP BY kind, variant, state, ifnull(holder, '');
CREATE TRIGGER jobs_enqueued AFTER INSERT ON jobs BEGIN
    INSERT INTO job_counts VALUES (new.kind, new.variant, new.state, ifnull(new.holder, ''), 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
CREATE TRIGGER jobs_moved AFTER UPDATE OF state ON jobs WHEN old.state <> new.state BEGIN
    UPDATE job_counts SET count = count - 1
    WHERE variant = old.variant AND kind = old.kind AND state = old.state AND holder = ifnull(old.holder, '');
    INSERT INTO job_counts VALUES (new.kind, new.variant, new.state, ifnull(new.holder, ''), 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
