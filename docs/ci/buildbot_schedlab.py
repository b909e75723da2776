"""Buildbot: tests the scheduler of a repository on each change. For master.cfg, next to which it lies:

    import buildbot_schedlab
    c["builders"].append(util.BuilderConfig(name="schedlab", workernames=["lab"],
        factory=buildbot_schedlab.factory("https://example.org/scheduler.git")))

The worker is a Debian 13 with qemu-system-x86 and schedlab on its PATH.
"""

from buildbot.plugins import steps, util
from buildbot.process.results import EXCEPTION, FAILURE, SUCCESS, WARNINGS


def factory(repository):
    return util.BuildFactory([
        steps.Git(repourl=repository, mode="incremental"),
        # The scheduler that the plan names:
        # steps.Compile(command="clang-19 -target bpf -mcpu=v3 -g -O2 -c ours.bpf.c -o ours.bpf.o"),
        steps.ShellCommand(
            name="schedlab",
            command=["sh", "ci/schedlab-test.sh", "ci/scheduler.toml"],
            # Outside of the checkout, so that it stays from build to build.
            env={"XDG_CACHE_HOME": util.Interpolate("%(prop:builddir)s/cache")},
            decodeRC={0: SUCCESS, 1: FAILURE, 2: EXCEPTION, 3: WARNINGS},
            logfiles={
                "summary.md": {"filename": "schedlab-results/summary.md", "follow": False},
                "results.xml": {"filename": "schedlab-results/results.xml", "follow": False},
            },
            lazylogfiles=True,
            timeout=900,
        ),
    ])
