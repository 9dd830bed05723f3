"""The commonest mistake with several machines: gloo on a network interface that is not the right one."""

from __future__ import annotations

import pytest

from tests.hosts.machines import machines, outputs, wait_until
from tests.hosts.training import RATE, SECONDS_TO_RUN, Training, long


@long
@pytest.mark.parametrize(("interface", "says"), [
    ("eth7", "GLOO_SOCKET_IFNAME='eth7': this machine has no such network interface"),
    ("lo", "ranks of other machines were looked for on this one (127.0.0.1)"),
])  # fmt: skip
def test_an_interface_that_does_not_lead_to_the_others(real_links, tmp_path, interface, says):
    run = Training(tmp_path, steps=20)
    with machines(2, tmp_path, RATE) as there:
        agents = run.start(there, there[0], options=["--timeout", "8"], INTERFACE=interface)
        wait_until(lambda: None not in [agent.status for agent in agents], SECONDS_TO_RUN, "the end", agents)
        assert [agent.status for agent in agents] == [1, 1]
    assert any(says in agent.output for agent in agents), outputs(agents)
