"""Tests of profile_categories.py, on a run made by hand."""

import unittest

import profile_categories


def row(address: int, size: int, category: str, rule: str, allocated_at: int, freed_at: int | None) -> dict:
    return {"address": address, "bytes": size, "category": category, "rule": rule, "allocated_at": allocated_at,
            "freed_at": freed_at}


# A parameter and a buffer from before the profiler began, and one more that is gone by then; a batch whose category changes
# with its version; a tensor that no operation made; memory without a tensor; an address that is used again.
TENSORS = [row(0x1000, 4096, "parameters", "module_setup", 1, None),
           row(0x2000, 512, "parameters", "module_setup", 2, None),
           row(0x3000, 512, "temporaries", "one_operation", 3, 4),
           row(0x3000, 1024, "inputs", "data", 5, 9),
           row(0x4000, 2048, "activations", "saved_for_backward", 6, None),
           row(0x5000, 8192, "workspace", "library", 7, None),
           row(0x6000, 512, "activations", "recomputed", 8, None),
           row(0x3000, 1536, "gradients", "backward_held", 10, None)]
PROFILE = {
    "begin": 4, "compiled": False, "buffers": [[0x2000, 512]], "lone": [3], "preexisting": [[0x1000, 0], [0x2000, 1]],
    "changes": [[10, 0x3000, 1024, 2], [20, 0x4000, 2048, 3], [30, 0x5000, 8192, None], [40, 0x6000, 512, 4],
                [50, 0x3000, -1024, 2], [60, 0x3000, 1536, 5]],
    "versions": [[35, 2, 1]],
    "categories": {"0": ["PARAMETER"], "1": [None], "2": ["INPUT", "ACTIVATION"], "3": [None], "4": ["AUTOGRAD_DETAIL"],
                   "5": ["GRADIENT"]},
}


class Profile(unittest.TestCase):
    def moments(self, **other) -> list[profile_categories.Moment]:
        comparison = profile_categories.Comparison(PROFILE | other, TENSORS)
        return [comparison.now() for _ in comparison.moments()]

    def test_categories_at_each_moment(self) -> None:
        first, second, third, fourth, fifth, sixth = self.moments()
        self.assertEqual((first.total, first.buffers, first.not_seen), (5632, 512, 0))
        self.assertEqual(dict(first.theirs), {"parameters": 4096, "inputs": 1024})
        self.assertEqual(first.ours, first.theirs)
        self.assertEqual((second.not_seen, second.ours), (2048, second.theirs))
        self.assertEqual((third.theirs["rest"], third.ours["rest"]), (8192, 8192))
        # The batch was written to by an operator: an activation to the profiler from then on.
        self.assertEqual((fourth.difference("inputs"), fourth.difference("activations"), fourth.difference("rest")),
                         (1024, -1024, 0))
        self.assertEqual(fifth.ours, fifth.theirs)
        self.assertEqual((sixth.theirs["gradients"], sixth.difference("gradients"), sixth.total), (1536, 0, 16896))

    def test_what_no_operation_made_is_compared_where_the_profiler_knows_it(self) -> None:
        moment = self.moments(lone=[5])[-1]
        self.assertEqual((moment.not_seen, moment.theirs["gradients"]), (0, 1536))

    def test_where_compiled_code_ran_only_what_is_known_by_name_counts(self) -> None:
        moment = self.moments(compiled=True, lone=[])[-1]
        self.assertEqual((moment.not_seen, moment.theirs["rest"]), (2048 + 512, 8192))
        self.assertEqual((moment.theirs["gradients"], moment.theirs["parameters"]), (1536, 4096))

    def test_the_two_must_speak_of_the_same_allocations(self) -> None:
        for changes in ([[10, 0x3000, 2048, 2]], [[10, 0x7000, 512, None]], [[10, 0x3000, -512, 2]],
                        [[10, 0x3000, 1024, 2], [20, 0x3000, 1536, 5]]):
            with self.assertRaises(ValueError):
                self.moments(changes=changes)


if __name__ == "__main__":
    unittest.main()
