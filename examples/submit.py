"""A job from Python: SAMJOBS_DATABASE_URL=postgresql://… python examples/submit.py"""

from samjobs.client import Client

spec = {
    "images": {"list": [{"image": "s3://photos/trip/a.jpg"}, {"image": "s3://photos/trip/b.jpg"}]},
    "prompts": {"text": ["red car", "bus"]},
    "output": {"uri": "s3://masks/trip", "formats": ["overlay"]},
}

with Client() as client:
    submitted = client.submit(spec, name="trip")
    print(submitted.job_id, "is new" if submitted.created else "was active already", flush=True)
    for job in client.watch(submitted.job_id):
        print(job.state.value, f"{job.images_done} of {job.images_total} images", client.why(job.id)[1], flush=True)
    for image in client.images(job.id, failed_only=True):
        print(image.key, image.error)
