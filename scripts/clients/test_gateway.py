"""The fixture itself: what a test leaves behind fails it, and is ended."""

import os
import subprocess
import unittest

from gateway import GatewayCase


class LeavesOneBehind(GatewayCase):
    """Not a test by itself: its method has another name."""

    leaving = 0.1

    def leaves(self) -> None:
        script = "setsid sleep 1000 >/dev/null 2>&1 & echo $!"
        LeavesOneBehind.pid = int(subprocess.check_output(["sh", "-c", script]))


class Fixture(unittest.TestCase):
    def test_what_is_left_behind_fails_the_test_and_is_ended(self) -> None:
        result = unittest.TestResult()
        LeavesOneBehind("leaves").run(result)
        self.assertEqual(len(result.failures), 1, result.errors)
        self.assertIn("sleep 1000", result.failures[0][1])
        # It came to this process, which may be the first to look at it.
        self.assertEqual(os.waitpid(LeavesOneBehind.pid, 0)[1], 9)


if __name__ == "__main__":
    unittest.main()
