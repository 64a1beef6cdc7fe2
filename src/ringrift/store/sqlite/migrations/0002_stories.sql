-- How many events in a row caused each other: a loop is one that grows without end.
ALTER TABLE log ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
-- A reader that left events waiting for too long holds the log no more.
ALTER TABLE readers ADD COLUMN lapsed INTEGER NOT NULL DEFAULT 0 CHECK (lapsed IN (0, 1));
-- The story that a job belongs to, as whoever asked for it wrote it.
ALTER TABLE jobs ADD COLUMN context TEXT NOT NULL DEFAULT '';
