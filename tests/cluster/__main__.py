"""`python -m tests.cluster`: the tests' own cluster by hand. `make cluster-up` and `make cluster-down` call it."""

import argparse
import sys

from tests.cluster import binaries, images, own


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start it, or find it running; prints how to reach it")
    commands.add_parser("down", help="end it and remove all that it left")
    commands.add_parser("build", help="build its programs and images into the cache, and start nothing")
    load = commands.add_parser("load", help="build an image of the code as it is now, and bring it onto the node")
    load.add_argument("image", choices=sorted(vars(images.NAMES)), nargs="+")
    wanted = parser.parse_args()

    lacking = own.lacking()
    if lacking is not None:
        print(lacking, file=sys.stderr)
        return 1
    if wanted.command == "down":
        own.down()
    elif wanted.command == "build":
        own.build()
    elif wanted.command == "load":
        for image in wanted.image:
            own.Machine().load(getattr(images.NAMES, image))
    else:
        cluster = own.up()
        print(f"export KUBECONFIG={cluster.kubeconfig}")
        print(f"export PATH={binaries.named('kubectl').parent}:$PATH   # kubectl {binaries.KUBERNETES}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
