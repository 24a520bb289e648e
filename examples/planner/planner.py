#!/usr/bin/env python3
"""A text model plans, a policy acts: the plan is JSON by a schema, its steps are calls of tools.

    examples/planner/planner.py LIB_DIR PLANNER.json ARM.json "stack the blocks" [ROUNDS]

LIB_DIR holds liboutrider_host.so and provider_gguf.so (build/release/lib). PLANNER.json opens a text
model with a schema_path, ARM.json a PI0 policy. Writes one JSON document a line: every plan, then
every call of a tool and what came back. Needs nothing beyond Python 3.
Exit status: 0 good, 1 refused, 2 usage.
"""
import ctypes as c
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tick import Policy, Refused, load_host  # noqa: E402

# The turns of the model that plans. The prompt port applies no chat template: what the model should
# see is what is written here.
PROMPT = ("<start_of_turn>user\nYou plan for a robot arm. Task: {task}\nDone so far: {done}\n"
          "Answer with the next steps as JSON.<end_of_turn>\n<start_of_turn>model\n")


class Planner:
    """One open text model whose answers follow the schema of its configuration."""

    def __init__(self, lib_dir, config_text):
        self.host = load_host(lib_dir)
        self.session = c.c_void_p()
        reason = c.create_string_buffer(512)
        code = self.host.outrider_open((lib_dir + "/provider_gguf.so").encode(), config_text.encode(),
                                       c.byref(self.session), reason, len(reason))
        if code != 0:
            raise Refused(f"planner: {code}: {reason.value.decode(errors='replace')}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.host.outrider_close(self.session)

    def _check(self, code):
        if code != 0:
            text = self.host.outrider_session_error(self.session)
            raise Refused(f"planner: {code}: {text.decode(errors='replace')}")

    def plan(self, task, done):
        """The next steps, a list of dictionaries. task is foreign text: its control marks are cut."""
        prompt = PROMPT.format(task=task.replace("<", "").replace(">", ""),
                               done=", ".join(done) if done else "nothing").encode()
        port = self.host.outrider_find_port(self.session, b"prompt")
        self._check(self.host.outrider_set_input(self.session, port, prompt, len(prompt)))
        self._check(self.host.outrider_tick(self.session))
        port = self.host.outrider_find_port(self.session, b"text")
        written, size = c.c_uint64(), 1 << 16
        text = c.create_string_buffer(size)
        self._check(self.host.outrider_get_output(self.session, port, text, size, c.byref(written)))
        # Whole unless max_tokens ended it: then this raises, and nothing moves.
        return json.loads(text.raw[:written.value])["steps"]


class Arm:
    """The robot: a policy, and a body that does what it says. Put your cameras and motors here."""

    def __init__(self, policy):
        self.policy = policy
        config = policy.config
        self.pictures = [bytes(config["image_width"] * config["image_height"] * 3)] * config["n_views"]
        self.state = [0.0] * min(8, config["action_dim"])

    def act(self, step):
        """Calls the policy once a chunk, each time with the state the chunk before ended in."""
        for _ in range(step["chunks"]):
            chunk = self.policy.act(self.pictures, f"{step['verb']} {step['object']}", self.state)
            self.state = [max(-1.0, min(1.0, value)) for value in chunk[-1][:len(self.state)]]
        return {"actions": step["chunks"] * len(chunk), "state": [round(x, 6) for x in self.state]}

    def wait(self, step):
        return {"waited_s": step["seconds"]}  # a real one would sleep

    def finish(self, _):
        return {"finished": True}


def work(planner, arm, task, rounds):
    """Plans and acts in turns, until a plan says finish or the rounds are used up."""
    done = []
    for _ in range(rounds):
        steps = planner.plan(task, done)
        print(json.dumps({"plan": steps}), flush=True)
        for step in steps:
            # The schema lets only these names through.
            result = {"act": arm.act, "wait": arm.wait, "finish": arm.finish}[step["tool"]](step)
            print(json.dumps({"call": step, "result": result}), flush=True)
            if step["tool"] == "finish":
                return
            done.append(" ".join(str(value) for value in step.values()))


def main(words):
    if len(words) < 5:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    configs = []
    for path in words[2:4]:
        with open(path, encoding="utf-8") as file:
            configs.append(file.read())
    try:
        with Planner(words[1], configs[0]) as planner, Policy(words[1], configs[1]) as policy:
            work(planner, Arm(policy), words[4], int(words[5]) if len(words) > 5 else 2)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except json.JSONDecodeError as broken:
        print(f"planner: the plan is cut off, raise max_tokens: {broken}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
