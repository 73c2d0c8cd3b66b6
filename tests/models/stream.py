"""silero_vad as published, over a minute of sound in steps of 32 ms with its state kept on the device, against onnxruntime step by step.

stream.py [--build DIR] [--seconds N] [NAME...]
"""
import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(os.path.dirname(HERE)), "models")]
import harness
import manifest
from harness import Failure, Outcome
from libtgb import Model, TgbError

import numpy as np
import onnxruntime

RATE, STEP, CONTEXT = 16000, 512, 64  # samples a second, in a step, and of the step before that are given again
TOLERANCE = 1e-3  # of a probability and of the state; errors of the state add up over the steps


def sound(seconds):
    """A voice by formants, with pauses, over noise that comes and goes: a detector of voices takes half of it for speech."""
    r = np.random.default_rng(11)
    t = np.arange(seconds * RATE) / RATE
    wave = lambda hertz, phase=0: np.sin(2 * np.pi * hertz * t + phase)
    pitch = 120 + 30 * wave(0.7) + 8 * wave(3.1)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    formants = ((500 + 250 * wave(1.9), 80, 1), (1500 + 600 * wave(1.3, 1), 120, 0.5), (2600, 200, 0.2))  # Hz, width, strength
    voice = sum(np.sin(k * phase) * sum(strength / (1 + ((k * pitch - at) / width) ** 2) for at, width, strength in formants) for k in range(1, 30))
    loud = np.clip(wave(2.3) + 0.6, 0, 1) * (wave(0.13) > -0.2)
    noise = r.standard_normal(len(t)) * (0.003 + 0.02 * (wave(0.05) > 0.5))
    return (0.1 * voice * loud + noise).astype(np.float32)


def stream(tools, build, entry, work, seconds):
    path = manifest.path(entry)
    if not os.path.exists(path):
        raise Failure("failed", f"not fetched; fetch with: models/fetch.py {entry['name']}")
    bundle = os.path.join(work, "m.tgb")
    state = np.zeros((2, 1, 128), np.float32)
    harness.compile_model(tools, path, bundle, {"input": (1, STEP + CONTEXT), "state": state.shape}, 300, {"DEV": "CPU"}, (), ["--state", "stateN=state"])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    wave, worst, speech, before = sound(seconds), 0, 0, np.zeros(CONTEXT, np.float32)
    with Model(build, bundle) as model:
        if "state" in [name for name, _, _ in model.inputs]:
            raise Failure("wrong", "the state is an input still")
        rate = np.array(RATE)
        for step in range(len(wave) // STEP):
            x = np.concatenate([before, wave[step * STEP: (step + 1) * STEP]])
            before = x[-CONTEXT:]
            want, state = session.run(None, {"input": x[None], "state": state, "sr": rate})
            got = model.run(*[x[None] if name == "input" else rate for name, _, _ in model.inputs])[0]
            error = float(np.abs(got - want).max())
            worst, speech = max(worst, error), speech + (want.max() > 0.5)
            if not error <= TOLERANCE:
                raise Failure("wrong", f"step {step}: {got.ravel()[0]:.6f}, expected {want.ravel()[0]:.6f}")
        # At 8 kHz a step has other sizes: that side of the model's If cannot run here.
        try:
            model.run(*[x[None] if name == "input" else np.array(8000) for name, _, _ in model.inputs])
            raise Failure("wrong", "8 kHz ran in steps for 16 kHz")
        except TgbError as e:
            if "can be computed" not in str(e):
                raise Failure("wrong", str(e))
    share = speech / (step + 1)
    if not 0.2 < share < 0.8:
        raise Failure("failed", f"the model takes {share:.0%} of the sound for speech: the test says little")
    return f"{step + 1} steps, error at most {worst:.1e}, speech in {share:.0%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["silero_vad"])
    parser.add_argument("--build", default=os.path.join(harness.ROOT, "build"))
    parser.add_argument("--seconds", type=int, default=60)
    args = parser.parse_args()
    tools, results = harness.programs(args.build), {}
    for entry in manifest.models(args.names):
        with tempfile.TemporaryDirectory() as work:
            try:
                print(f"{entry['name']}: {stream(tools, args.build, entry, work, args.seconds)}", flush=True)
                results[entry["name"]] = Outcome("passed")
            except Failure as e:
                results[entry["name"]] = e.outcome
    return harness.summary("stream", results, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
