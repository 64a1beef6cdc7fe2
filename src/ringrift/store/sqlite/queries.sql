-- name: append
-- One event; the same id again changes nothing.
INSERT INTO log (id, name, body, version, time, node, source, labels, correlation, cause, trace, depth)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- name: head
-- The newest position.
SELECT coalesce(max(position), 0) FROM log;

-- name: read
-- Events behind a position, in order.
SELECT id, name, body, version, position, time, node, source, labels, correlation, cause, trace, depth
FROM log WHERE position > ? ORDER BY position LIMIT ?;

-- name: read_named
-- Events behind a position whose names are in a JSON list, in order.
SELECT id, name, body, version, position, time, node, source, labels, correlation, cause, trace, depth
FROM log WHERE position > ? AND name IN (SELECT value FROM json_each(?)) ORDER BY position LIMIT ?;

-- name: last
-- The newest events before a position, newest first; of the names in a JSON list, or of all.
SELECT id, name, body, version, position, time, node, source, labels, correlation, cause, trace, depth
FROM log WHERE position < ?1 AND (?3 IS NULL OR name IN (SELECT value FROM json_each(?3)))
ORDER BY position DESC LIMIT ?2;

-- name: events_by_id
-- Events by a JSON list of ids.
SELECT id, name, body, version, position, time, node, source, labels, correlation, cause, trace, depth
FROM log WHERE id IN (SELECT value FROM json_each(?)) ORDER BY position;

-- name: events_at
-- Events by a JSON list of positions.
SELECT id, name, body, version, position, time, node, source, labels, correlation, cause, trace, depth
FROM log WHERE position IN (SELECT value FROM json_each(?)) ORDER BY position;

-- name: events_of_trace
-- Events of one trace, in order.
SELECT id, name, body, version, position, time, node, source, labels, correlation, cause, trace, depth
FROM log WHERE trace = ? ORDER BY position LIMIT ?;

-- name: position_before
-- The position before the first event at a time or later.
SELECT coalesce((SELECT min(position) FROM log WHERE time >= ?1) - 1, (SELECT max(position) FROM log), 0);

-- name: compact
-- Delete old events that every reader has read, never the newest; of the names in a JSON list, or of all.
DELETE FROM log WHERE position IN (
    SELECT position FROM log
    WHERE position BETWEEN ?4 AND ?5
      AND position <= (SELECT max(position) FROM log) - max(?1, 1)
      AND position <= coalesce((SELECT min(position) FROM readers WHERE NOT lapsed), 9223372036854775807)
      AND (?3 IS NULL OR name IN (SELECT value FROM json_each(?3)))
      AND NOT EXISTS (
          SELECT 1 FROM deliveries d LEFT JOIN readers r USING (reader)
          WHERE d.position = log.position AND d.state IN ('parked', 'dead') AND NOT coalesce(r.lapsed, 0))
    ORDER BY position LIMIT ?2);

-- name: expire
-- Delete settled deliveries of events that are no longer in the log.
DELETE FROM deliveries WHERE (reader, position) IN (
    SELECT reader, position FROM deliveries
    WHERE state IN ('done', 'discarded') AND NOT EXISTS (SELECT 1 FROM log WHERE log.position = deliveries.position)
    LIMIT ?);

-- name: positions
-- Every durable reader.
SELECT reader, position FROM readers ORDER BY reader;

-- name: register_reader
-- A new reader starts somewhere; a known one stays.
INSERT INTO readers (reader, position) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: position
-- The position of a reader.
SELECT position, lapsed FROM readers WHERE reader = ?;

-- name: advance
-- Move a reader, if its position is the expected one.
UPDATE readers SET position = ?3 WHERE reader = ?1 AND position = ?2 AND NOT lapsed;

-- name: readers
-- Every durable reader, the number of unread events up to a limit, and the time of the oldest.
SELECT reader, position, lapsed,
    (SELECT count(*) FROM (SELECT 1 FROM log WHERE log.position > readers.position LIMIT ?)),
    (SELECT time FROM log WHERE log.position > readers.position ORDER BY log.position LIMIT 1)
FROM readers ORDER BY reader;

-- name: lapse_reader
-- Let the log be compacted without this reader.
UPDATE readers SET lapsed = 1 WHERE reader = ?1 AND position = ?2;

-- name: forget_reader
-- Delete a reader.
DELETE FROM readers WHERE reader = ?;

-- name: forget_deliveries
-- Delete the deliveries of a reader.
DELETE FROM deliveries WHERE reader = ?;

-- name: put_delivery
-- Write a delivery in its new state.
INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET state = excluded.state, attempts = excluded.attempts, pause = excluded.pause,
    error = excluded.error, last = excluded.last;

-- name: deliveries
-- Deliveries in a JSON list of states.
SELECT reader, position, state, attempts, pause, error, first, last FROM deliveries
WHERE state IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR reader = ?2) ORDER BY position LIMIT ?3;

-- name: deliveries_at
-- Deliveries to one reader at a JSON list of positions, through the primary key.
SELECT reader, position, state, attempts, pause, error, first, last FROM deliveries
WHERE reader = ?1 AND position IN (SELECT value FROM json_each(?2)) ORDER BY position;

-- name: enqueue
-- One job, unless one with its key is alive; an archived one with its id is as much in the way as any other.
INSERT INTO jobs (id, kind, variant, key, body, state, priority, node, time, context, pause)
SELECT ?1, ?2, ?3, ?4, ?5, 'ready', ?6, ?7, ?8, ?9, ?10 WHERE NOT EXISTS (SELECT 1 FROM archived_jobs WHERE id = ?1)
ON CONFLICT DO NOTHING;

-- name: live_key
-- The live job with a key.
SELECT id FROM jobs WHERE key = ? AND state IN ('ready', 'claimed');

-- name: ready
-- The next ready jobs of one kind, for any node or for one node.
SELECT priority, number FROM jobs
WHERE state = 'ready' AND pause = 0 AND kind = ?1 AND node IS ?2
ORDER BY priority DESC, number LIMIT ?3;

-- name: ready_except
-- The same with the variant of each, without a JSON list of variants and one of jobs; with a third only of its jobs.
SELECT priority, number, variant FROM jobs
WHERE state = 'ready' AND pause = 0 AND kind = ?1 AND node IS ?2
    AND variant NOT IN (SELECT value FROM json_each(?4))
    AND number NOT IN (SELECT number FROM jobs WHERE id IN (SELECT value FROM json_each(?5)))
    AND (?6 IS NULL OR number IN (SELECT number FROM jobs WHERE id IN (SELECT value FROM json_each(?6))))
ORDER BY priority DESC, number LIMIT ?3;

-- name: claim_all
-- Lease the jobs of a JSON list of numbers: one statement for all.
UPDATE jobs SET state = 'claimed', holder = ?2, seconds = ?3, fence = fence + 1, renewals = 0, progress = 0,
    attempts = attempts + 1
WHERE number IN (SELECT value FROM json_each(?1))
RETURNING number, id, kind, variant, key, body, holder, fence, renewals, seconds, attempts, outputs, context;

-- name: renew
-- Renew a lease.
UPDATE jobs SET renewals = renewals + 1, progress = ?3, outputs = coalesce(?4, outputs), seconds = coalesce(?5, seconds)
WHERE id = ?1 AND fence = ?2 AND state = 'claimed';

-- name: finish
-- Finish a job.
UPDATE jobs SET state = 'done', holder = NULL, progress = 1, error = NULL WHERE id = ?1 AND fence = ?2 AND state = 'claimed';

-- name: fail
-- End an attempt without a result: ready again after a pause, or dead.
UPDATE jobs SET state = ?3, holder = NULL, pause = ?4, error = ?5, attempts = attempts - ?7
WHERE id = ?1 AND fence = ?2 AND state = 'claimed' AND (?6 IS NULL OR renewals = ?6);

-- name: resume
-- End the pause of a ready job.
UPDATE jobs SET pause = 0 WHERE id = ? AND state = 'ready';

-- name: cancel
-- Cancel a live job; its holder is fenced off because the state has changed.
UPDATE jobs SET state = 'cancelled', holder = NULL WHERE id = ? AND state IN ('ready', 'claimed');

-- name: jobs
-- Jobs in a JSON list of states, oldest first; the archived ones too.
SELECT id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause, progress,
    time, error
FROM every_job WHERE state IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR variant = ?2)
    AND (?3 IS NULL OR holder = ?3) AND (kind < 'task:' OR kind >= 'task;') ORDER BY number LIMIT ?4;

-- name: jobs_live
-- Those of them that have not ended, through the index of their keys, in which no other is.
SELECT id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause, progress,
    time, error
FROM jobs INDEXED BY jobs_key WHERE state IN ('ready', 'claimed') AND state IN (SELECT value FROM json_each(?1))
    AND (?2 IS NULL OR variant = ?2) AND (?3 IS NULL OR holder = ?3) AND (kind < 'task:' OR kind >= 'task;')
ORDER BY number LIMIT ?4;

-- name: jobs_dead
-- Dead jobs through their own indexes.
SELECT id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause, progress,
    time, error
FROM every_job WHERE state = 'dead' AND (?2 IS NULL OR variant = ?2) AND (?3 IS NULL OR holder = ?3)
    AND (kind < 'task:' OR kind >= 'task;') ORDER BY number LIMIT ?4;

-- name: list_jobs
-- The newest jobs in a JSON list of states, the archived ones too, by the beginning or the end of their ids.
SELECT id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause, progress,
    time, error
FROM every_job WHERE state IN (SELECT value FROM json_each(?1)) AND id >= ?2 AND id < ?2 || char(1114111)
    AND (?3 = '' OR substr(id, -length(?3)) = ?3) AND (?4 IS NULL OR variant = ?4) AND (?5 IS NULL OR kind = ?5)
    AND (?6 IS NULL OR coalesce(holder, node) = ?6) AND (kind < 'task:' OR kind >= 'task;')
ORDER BY number DESC LIMIT ?7;

-- name: archive
-- Move the oldest ended jobs behind the newest of all; of tasks, those whose body was dropped.  A trigger inserts them.
DELETE FROM jobs WHERE number IN (
    SELECT number FROM jobs
    WHERE state IN ('done', 'dead', 'cancelled') AND number <= (SELECT max(number) FROM jobs) - max(?1, 1)
        AND (kind < 'task:' OR kind >= 'task;' OR body = x'')
    ORDER BY number LIMIT ?2);

-- name: jobs_claimed
-- Claimed jobs through their own index.
SELECT id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause, progress,
    time, error
FROM jobs INDEXED BY jobs_claimed WHERE state = 'claimed' AND (?1 IS NULL OR variant = ?1)
    AND (kind < 'task:' OR kind >= 'task;') ORDER BY number LIMIT ?2;

-- name: jobs_held
-- The claimed jobs of one holder: found, not filtered, however many others have.
SELECT id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause, progress,
    time, error
FROM jobs INDEXED BY jobs_claimed WHERE state = 'claimed' AND holder = ?1 AND (?2 IS NULL OR variant = ?2)
    AND (kind < 'task:' OR kind >= 'task;') ORDER BY number LIMIT ?3;

-- name: jobs_paused
-- Paused jobs through their own index.
SELECT id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause, progress,
    time, error
FROM jobs WHERE state = 'ready' AND pause > 0 AND (?1 IS NULL OR variant = ?1) ORDER BY number LIMIT ?2;

-- name: count_jobs
-- Jobs by kind and state, of one variant or of all.
SELECT kind, state, sum(count) FROM job_counts
WHERE (?1 IS NULL OR variant = ?1) AND (kind < 'task:' OR kind >= 'task;') GROUP BY kind, state;

-- name: job_counters
-- The counters of one state for a JSON list of kinds of jobs or tasks.
SELECT kind, variant, holder, count FROM job_counts INDEXED BY job_counts_state
WHERE state = ?1 AND kind IN (SELECT value FROM json_each(?2)) AND count > 0 ORDER BY kind, variant, holder;

-- name: forget_counters
-- Delete the counters of holders and variants that have nothing any more.
DELETE FROM job_counts WHERE count = 0;

-- name: register
-- A task, claimed from its birth, unless one with its key is alive.  Its number is its fence and part of its id.
INSERT INTO jobs (id, kind, variant, key, body, state, priority, attempts, fence, holder, seconds, time)
SELECT format('%s#%d', ?3, number), ?1, ?2, ?3, ?4, 'claimed', 0, 1, number, ?5, ?6, ?7
FROM (SELECT coalesce((SELECT max(number) FROM jobs), 0) + 1 AS number) WHERE true
ON CONFLICT DO NOTHING RETURNING fence;

-- name: change_task
-- A beat of a task, which stays claimed, or its end.
UPDATE jobs SET state = ?3, body = ?4, error = ?5, renewals = renewals + 1, holder = iif(?3 = 'claimed', holder, NULL)
WHERE id = ?1 AND fence = ?2 AND state = 'claimed';

-- name: empty_old_task
-- Drop what an ended task carried once that many newer ones exist.
UPDATE jobs SET body = x'' WHERE state <> 'claimed' AND number = (
    SELECT number FROM jobs WHERE kind >= 'task:' AND kind < 'task;' ORDER BY number DESC LIMIT 1 OFFSET ?1);

-- name: tasks_running
-- Tasks that run, oldest first.
SELECT id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause, progress,
    time, error
FROM jobs INDEXED BY jobs_claimed WHERE state = 'claimed' AND kind >= 'task:' AND kind < 'task;' ORDER BY number LIMIT ?;

-- name: tasks_with_keys
-- Tasks that run and have one of a JSON list of keys.
SELECT id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause, progress,
    time, error
FROM jobs WHERE state IN ('ready', 'claimed') AND key IN (SELECT value FROM json_each(?1))
    AND kind >= 'task:' AND kind < 'task;' ORDER BY number;

-- name: tasks_newest
-- The newest tasks, whatever their state, newest first.
SELECT id, kind, variant, key, body, state, priority, node, attempts, fence, holder, renewals, seconds, pause, progress,
    time, error
FROM jobs INDEXED BY jobs_tasks WHERE kind >= 'task:' AND kind < 'task;' ORDER BY number DESC LIMIT ?;

-- name: roles
-- Every role.
SELECT role, holder, term, renewals, seconds FROM roles ORDER BY role;

-- name: role
-- One role.
SELECT role, holder, term, renewals, seconds FROM roles WHERE role = ?;

-- name: hold_role
-- Take a role in a new term; the first one of a role lies in the epoch of all others.
INSERT INTO roles VALUES (?1, ?2, 1 + (coalesce((SELECT max(term) FROM roles), 0) >> 32 << 32), 0, ?3)
ON CONFLICT DO UPDATE SET holder = excluded.holder, term = term + 1, renewals = 0, seconds = excluded.seconds;

-- name: renew_role
-- Renew a role in its term.
UPDATE roles SET renewals = renewals + 1 WHERE role = ?1 AND term = ?2 AND holder <> '';

-- name: release_roles
-- Free the roles of one holder, or of all; the term stays.
UPDATE roles SET holder = '' WHERE ?1 IS NULL OR holder = ?1;

-- name: fence_jobs
-- Raise the fence of every live job into an epoch.
UPDATE jobs SET fence = (?1 << 32) + (fence & 0xFFFFFFFF) WHERE state IN ('ready', 'claimed');

-- name: end_tasks
-- End every task: the program that ran it worked for the store that this one is a copy of.
UPDATE jobs SET state = 'dead', holder = NULL, error = 'the store was restored from a backup'
WHERE state = 'claimed' AND kind >= 'task:' AND kind < 'task;';

-- name: return_jobs
-- Return every claimed job to the queue.
UPDATE jobs SET state = 'ready', holder = NULL, pause = 0, progress = 0, attempts = max(attempts - 1, 0)
WHERE state = 'claimed';

-- name: fence_roles
-- Free every role and raise its term into an epoch.
UPDATE roles SET holder = '', term = (?1 << 32) + (term & 0xFFFFFFFF);

-- name: get_one
-- One record.
SELECT id, body FROM records WHERE kind = ? AND id = ?;

-- name: get
-- Records by a JSON list of ids.
SELECT id, body FROM records WHERE kind = ?1 AND id IN (SELECT value FROM json_each(?2));

-- name: find
-- Records by an index field.  CROSS: in any other order every record of the kind is read, so as not to sort.
SELECT r.id, r.body FROM json_each(?3) j
    CROSS JOIN record_index i ON i.kind = ?1 AND i.field = ?2 AND i.value = j.value
    CROSS JOIN records r ON r.kind = i.kind AND r.id = i.id
ORDER BY i.id LIMIT ?4;

-- name: scan
-- Records by id.
SELECT id, body FROM records WHERE kind = ? AND id > ? ORDER BY id LIMIT ?;

-- name: put
-- One record.
INSERT INTO records VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body;

-- name: put_index
-- One index entry of a record.
INSERT INTO record_index VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: clear_index
-- Delete the index entries of a record.
DELETE FROM record_index WHERE kind = ? AND id = ?;

-- name: delete
-- Delete a record.
DELETE FROM records WHERE kind = ? AND id = ?;

-- name: name
-- Give a name its number.
INSERT INTO names (name) VALUES (?);

-- name: numbers
-- The numbers of those of a JSON list of names that have one.
SELECT name, number FROM names WHERE name IN (SELECT value FROM json_each(?));

-- name: named
-- Names by a JSON list of numbers.
SELECT number, name FROM names WHERE number IN (SELECT value FROM json_each(?));

-- name: link
-- Record that a child was made from a parent.
INSERT INTO links VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: parents
-- Parents of these numbers, of a JSON list of kinds or of any.
SELECT DISTINCT l.parent FROM json_each(?1) j CROSS JOIN links l ON l.child = j.value
WHERE ?2 IS NULL
    OR EXISTS (SELECT 1 FROM origins o WHERE o.blob = l.parent AND o.kind IN (SELECT value FROM json_each(?2)))
ORDER BY l.parent;

-- name: children
-- Children of these numbers, of a JSON list of kinds or of any.
SELECT DISTINCT l.child FROM json_each(?1) j CROSS JOIN links l ON l.parent = j.value
WHERE ?2 IS NULL
    OR EXISTS (SELECT 1 FROM origins o WHERE o.blob = l.child AND o.kind IN (SELECT value FROM json_each(?2)))
ORDER BY l.child;

-- name: put_origin
-- How a node made a blob; the first report stays.
INSERT INTO origins VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: origins
-- How a JSON list of blobs was made.
SELECT b.name, o.node, o.kind, o.variant, o.time, o.games, o.job, o.job_kind, o.key, o.seed, o.generation, m.name,
    s.name, o.workload, o.version, o.release, o.settings
FROM json_each(?1) j CROSS JOIN names b ON b.name = j.value CROSS JOIN origins o ON o.blob = b.number
    LEFT JOIN names m ON m.number = o.model LEFT JOIN names s ON s.number = o.samples
ORDER BY o.blob, o.time, o.node;

-- name: list_origins
-- The newest origins of one kind, of one variant or of all.
SELECT b.name, o.node, o.kind, o.variant, o.time, o.games, o.job, o.job_kind, o.key, o.seed, o.generation, m.name,
    s.name, o.workload, o.version, o.release, o.settings
FROM origins o CROSS JOIN names b ON b.number = o.blob
    LEFT JOIN names m ON m.number = o.model LEFT JOIN names s ON s.number = o.samples
WHERE o.kind = ?1 AND (?2 IS NULL OR o.variant = ?2) ORDER BY o.time DESC, o.blob DESC, o.node DESC LIMIT ?3;

-- name: list_origins_named
-- Origins of one kind whose blobs begin with a text, through the index of names.
SELECT b.name, o.node, o.kind, o.variant, o.time, o.games, o.job, o.job_kind, o.key, o.seed, o.generation, m.name,
    s.name, o.workload, o.version, o.release, o.settings
FROM names b CROSS JOIN origins o ON o.blob = b.number
    LEFT JOIN names m ON m.number = o.model LEFT JOIN names s ON s.number = o.samples
WHERE b.name >= ?4 AND b.name < ?4 || char(1114111) AND o.kind = ?1 AND (?2 IS NULL OR o.variant = ?2)
ORDER BY b.name, o.node LIMIT ?3;

-- name: origin_nodes
-- Every node with an origin: one step of the index for each.
WITH RECURSIVE found(node) AS (
    SELECT min(node) FROM origins
    UNION ALL SELECT (SELECT min(node) FROM origins o WHERE o.node > found.node) FROM found WHERE found.node IS NOT NULL
)
SELECT node FROM found WHERE node IS NOT NULL LIMIT ?;

-- name: shares_by_node
-- By node, the blobs of one kind that went into a JSON list of blobs: each blob once.
SELECT o.node, count(*), sum(o.games)
FROM (SELECT DISTINCT l.parent AS blob FROM json_each(?2) j CROSS JOIN names n ON n.name = j.value
        CROSS JOIN links l ON l.child = n.number ORDER BY 1) b
    CROSS JOIN origins o ON o.blob = b.blob
WHERE o.kind = ?1 GROUP BY o.node ORDER BY o.node;

-- name: share_of_node
-- How much of one kind a node made in a period.
SELECT ?2, count(*), coalesce(sum(games), 0) FROM origins
WHERE node = ?2 AND kind = ?1 AND time >= ?3 AND time < ?4 AND (?5 IS NULL OR variant = ?5);

-- name: shares_made_from
-- Blobs made directly from a node's blobs of one kind and period, newest first, with how much of them is in each.
SELECT n.name, found.blobs, found.games
FROM (SELECT l.child, count(*) AS blobs, sum(o.games) AS games FROM origins o CROSS JOIN links l ON l.parent = o.blob
        WHERE o.node = ?2 AND o.kind = ?1 AND o.time >= ?3 AND o.time < ?4 AND (?5 IS NULL OR o.variant = ?5)
        GROUP BY l.child ORDER BY l.child DESC LIMIT ?6) found
    CROSS JOIN names n ON n.number = found.child
ORDER BY found.child DESC;
