-- A job by plain SQL: psql "$SAMJOBS_DATABASE_URL" -f examples/submit.sql
--
-- A request is checked by the controller, which wakes by itself: a job of the same id comes of it, or an error. As part
-- of your own transaction it exists when, and only when, that commits.

BEGIN;

INSERT INTO requests (tenant, name, spec)
VALUES (
    'default',
    'trip',
    '{
        "images": {"list": [{"image": "s3://photos/trip/a.jpg"}, {"image": "s3://photos/trip/b.jpg"}]},
        "prompts": {"text": ["red car", "bus"]},
        "output": {"uri": "s3://masks/trip", "formats": ["overlay"]}
    }'
)
RETURNING id;

COMMIT;

-- What became of the requests: a job of that id, or of an equal one that was active already; or what is wrong.
SELECT requests.id, requests.job_id, requests.error, jobs.state, jobs.images_done, jobs.images_failed, jobs.images_total
FROM requests LEFT JOIN jobs ON jobs.id = requests.job_id
ORDER BY requests.created_at DESC
LIMIT 10;
