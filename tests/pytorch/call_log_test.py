"""Tests of call_log.py, the comparison of two logs of the simulated device."""

import unittest

import call_log

LOG = ('# simcuda log 1 pid=1\n'
       '1 70 cuInit Flags=0 -> 0\n'
       '2 70 cuMemAlloc_v2 dptr=0x7ffe0000 bytesize=100 *dptr=0x230000000000 -> 0\n'
       '3 71 cuLibraryGetKernel pKernel=0x7fff11223344 library=0x54000010 name="f=0x7fff11223344" *pKernel=0x54000020 -> 0\n'
       '4 70 cuMemcpyDtoHAsync_v2 dstHost=0x55aa11223344 srcDevice=0x230000000000 ByteCount=4 hStream=0x0 -> 0\n'
       '# data to=host bytes=4 hash=0x12\n'
       '# held address=0x230000000000 bytes=100 kind=device\n'
       '# exit blocks=1\n')


class Comparable(unittest.TestCase):
    def test_what_is_kept(self) -> None:
        self.assertEqual(call_log.comparable(LOG.replace("0x7ffe0000", "0x7ffe00000000")), [
            "thread 0: cuMemAlloc_v2 dptr=host bytesize=100 *dptr=0x230000000000 -> 0",
            'thread 1: cuLibraryGetKernel pKernel=host library=0x54000010 name="f=0x7fff11223344" *pKernel=0x54000020 -> 0',
            "thread 0: cuMemcpyDtoHAsync_v2 dstHost=host srcDevice=0x230000000000 ByteCount=4 hStream=0x0 -> 0",
            "# data to=host bytes=4 hash=0x12"])

    def test_another_run_of_the_same_program_is_equal(self) -> None:
        other = (LOG.replace(" 70 ", " 870 ").replace(" 71 ", " 871 ").replace("0x55aa11223344", "0x55bb11223344")
                 .replace("1 870 cuInit", "1 870 cuMemGetInfo_v2 free=0x7ffe11223344 -> 0\n2 870 cuInit"))
        numbered = []
        for line in other.splitlines():
            count = sum(not earlier.startswith("#") for earlier in numbered) + 1
            numbered.append(line if line.startswith("#") else f"{count} {line.split(' ', 1)[1]}")
        self.assertEqual(
            call_log.first_difference(call_log.comparable(LOG), call_log.comparable("\n".join(numbered))), "")

    def test_each_difference_is_found(self) -> None:
        for old, new in (("bytesize=100", "bytesize=200"), ("*dptr=0x230000000000", "*dptr=0x230000200000"),
                         ("hStream=0x0", "hStream=0x53000010"), ("hash=0x12", "hash=0x13"), ("ByteCount=4", "ByteCount=5"),
                         ("hStream=0x0 -> 0", "hStream=0x0 -> 700"), ("4 70", "4 71"), ("library=0x54000010", "library=0x1"),
                         ("cuMemcpyDtoHAsync_v2", "cuMemcpyDtoH_v2"), ("# data to=host bytes=4 hash=0x12\n", "")):
            with self.subTest(f"{old} -> {new}"):
                changed = LOG.replace(old, new)
                self.assertNotEqual(changed, LOG)
                self.assertNotEqual(
                    call_log.first_difference(call_log.comparable(LOG), call_log.comparable(changed)), "")

    def test_besides_memory(self) -> None:
        text = ("1 7 cuMemAllocAsync dptr=0x7f0000000000 bytesize=8 hStream=0x0 *dptr=0x230000000200 -> 0\n"
                "2 7 cuMemsetD8Async_ptsz dstDevice=0x230000000200 uc=0 N=8 hStream=0x1 -> 0\n"
                "3 7 cuMemsetD8Async dstDevice=0x230000000200 uc=1 N=8 hStream=0x53000010 -> 0\n"
                "# data to=device bytes=8 hash=0x1\n# data to=host bytes=8 hash=0x2\n"
                "# release address=0x230000000000 bytes=8 kind=pool why=cuCtxDestroy\n")
        self.assertEqual(call_log.fills(call_log.comparable(text)), 1)
        self.assertEqual(call_log.besides_memory(call_log.comparable(text)), [
            "thread 0: cuMemsetD8Async dstDevice=device uc=1 N=8 hStream=0x53000010 -> 0",
            "# data to=device bytes=8 hash=0x1", "# data to=host bytes=8 hash=0x2"])

    def test_a_lost_or_cut_line_is_refused(self) -> None:
        for damaged in (LOG.replace("3 71 cuLib", "4 71 cuLib"), LOG + "5 70 cuMemFree_v2 dptr=0x23"):
            with self.assertRaises(ValueError):
                call_log.comparable(damaged)


if __name__ == "__main__":
    unittest.main()
