-- Names get numbers in the order in which they are first heard of.  A link between numbers is small, and what was made
-- together lies together: a million of them are read in a fraction of a second.
CREATE TABLE names (
    number INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO names (name) SELECT parent FROM links UNION SELECT child FROM links;
CREATE TABLE numbered (
    child  INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    PRIMARY KEY (child, parent)
) STRICT, WITHOUT ROWID;
INSERT INTO numbered
SELECT c.number, p.number FROM links l JOIN names c ON c.name = l.child JOIN names p ON p.name = l.parent;
DROP TABLE links;
ALTER TABLE numbered RENAME TO links;
CREATE INDEX links_parent ON links (parent, child);

-- How a blob was made, for ever: one row for each node that made it, never one for each game in it.
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
-- It has all that is asked of the games of a node, so that the rows themselves are not read.
CREATE INDEX origins_node ON origins (node, kind, time, variant, games);
CREATE INDEX origins_kind ON origins (kind, time);
