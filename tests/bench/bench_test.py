"""tools/bench without its clocks."""
import math
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tools", "bench"), os.path.join(ROOT, "tests"), os.path.join(ROOT, "models")]
import numpy as np
import onnx

import contest
import machine
import micro
import peers
import report


def rows(**ms):
    return {"threads": {"1": {k: v if isinstance(v, dict) else {"ms": v} for k, v in ms.items()}}}


class Errors(unittest.TestCase):
    def test_is_relative_to_the_largest_value(self):
        self.assertAlmostEqual(contest.error([np.array([1.0, -4.0]), np.array([3])], [np.array([1.1, -5.0]), np.array([3])]), 0.2)

    def test_shapes_do_not_count(self):
        self.assertEqual(contest.error([np.ones((2, 3))], [np.ones(6)]), 0.0)

    def test_zeros_are_compared_absolutely(self):
        self.assertEqual(contest.error([np.full(3, 0.5)], [np.zeros(3)]), 0.5)

    def test_what_cannot_be_compared_is_told(self):
        self.assertEqual(contest.error([], [np.ones(1)]), "0 outputs for 1")
        self.assertEqual(contest.error([np.ones(2)], [np.ones(3)]), "an output of 2 elements for 3")
        self.assertEqual(contest.error([np.array([np.nan])], [np.ones(1)]), "values that are not finite")

    def test_the_same_nan_is_right(self):
        self.assertEqual(contest.error([np.array([np.nan, 2])], [np.array([np.nan, 2])]), 0.0)


class Ratios(unittest.TestCase):
    result = {"models": {"a": rows(tgaot=2.0, onnxruntime=4.0, mnn=1.0), "b": rows(tgaot=2.0, onnxruntime=1.0, mnn={"gap": "no"}),
                         "c": rows(tgaot={"ms": 1.0, "wrong": "error"}, onnxruntime=1.0), "d": rows(tgaot=3.0, onnxruntime={"ms": 2.0, "wrong": "error"}),
                         "e": {"failed": "refused"}}}

    def test_only_models_that_both_ran_right(self):
        self.assertEqual(report.ratios(self.result, 1, "onnxruntime"), {"a": 0.5, "b": 2.0})
        self.assertEqual(report.ratios(self.result, 1, "mnn"), {"a": 2.0})

    def test_the_best_peer_is_another_one_each_time(self):
        self.assertEqual(report.ratios(self.result, 1, "best"), {"a": 2.0, "b": 2.0})

    def test_other_threads_are_other_runs(self):
        self.assertEqual(report.ratios(self.result, 2, "best"), {})

    def test_geometric_mean(self):
        self.assertAlmostEqual(report.geomean([0.5, 2.0, 8.0]), 2.0)
        self.assertTrue(math.isnan(report.geomean([])))

    def test_tables_name_gaps_and_failures(self):
        text = report.times_table(self.result, 1, ("tgaot", "onnxruntime", "mnn")) + report.gaps(self.result)
        for part in ("none", "refused", "1!", "gap: mnn: no: b@1", "gap: tgaot: wrong result: error: c@1", "geometric mean against onnxruntime: 1.000 of 2 models"):
            self.assertIn(part, text)


class Shares(unittest.TestCase):
    def test_of_the_kind_and_of_the_working_set(self):
        m = object.__new__(machine.Machine)
        m.peaks = {"f32": 100.0, "int8": 400.0, "read": {"16": 200.0, "512": 100.0}}
        self.assertEqual(m.shares(1000, 50000, 16384), (50.0, 100 * 16.384 / 200))
        self.assertEqual(m.shares(1000, 100000, 1 << 30, "int8")[0], 25.0)
        self.assertEqual(m.shares(1000, 0, 1 << 30)[1], 100 * (1 << 30) / 1000 / 100)  # more than was measured: the largest
        self.assertEqual(m.shares(1000, 50000, 0, "bf16")[0], 50.0)  # a kind that the machine lacks


class Operators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ops = micro.ops()

    def test_models_are_valid_and_named_once(self):
        self.assertEqual(len({o.name for o in self.ops}), len(self.ops))
        for o in self.ops:
            onnx.checker.check_model(onnx.shape_inference.infer_shapes(o.model), full_check=True)

    def test_operations(self):
        flops = {o.name: o.flops for o in self.ops}
        self.assertEqual(flops["gemm_256"], 33554432)
        self.assertEqual(flops["conv3x3_64_56"], 231211008)  # 2 * 64 * 64 * 9 * 56 * 56
        self.assertEqual(flops["conv7x7s2_3_64_224"], 236027904)  # 2 * 64 * 3 * 49 * 112 * 112
        self.assertEqual(flops["dwconv3x3_144_56"], 8128512)  # 2 * 144 * 9 * 56 * 56
        self.assertEqual(flops["conv3x3_64_56_in_net"], flops["conv3x3_64_56"])


class Gaps(unittest.TestCase):
    def run_peer(self, name, python, **spec):
        with tempfile.TemporaryDirectory() as work:
            np.savez(os.path.join(work, "inputs.npz"), np.ones(2, np.float32))
            contest.PEERS_PYTHON, before = python, contest.PEERS_PYTHON
            try:
                r = contest.Runner(name, dict(spec, inputs=os.path.join(work, "inputs.npz"), threads=1), work, {}, 60)
                r.close()
                return r
            finally:
                contest.PEERS_PYTHON = before

    def test_a_peer_that_is_not_installed(self):
        self.assertEqual(self.run_peer("ncnn", sys.executable).gap, "not installed (ncnn)")

    def test_a_model_that_is_not_there(self):
        self.assertIn("no/such.tgb", self.run_peer("tgaot", sys.executable, bundle="no/such.tgb", library=self.library()).gap)

    def test_inputs_lie_at_multiples_of_64(self):
        for shape in ((1,), (3, 5), (7, 1, 9)):
            x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            a = peers.aligned(x)
            self.assertEqual(a.ctypes.data % 64, 0)
            self.assertTrue(np.array_equal(a, x))

    @staticmethod
    def library():
        path = os.environ.get("LIBTGB", os.path.join(ROOT, "build", "runtime-lite", "libtgb.so"))
        if not os.path.exists(path):
            raise unittest.SkipTest(f"{path} is not built")
        return path


if __name__ == "__main__":
    unittest.main()
