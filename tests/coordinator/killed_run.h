// A run in a child process that is killed at one of its durable operations.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "coordinator/run_coordinator.h"
#include "tests/coordinator/faulty_file_system.h"
#include "tests/coordinator/faulty_sqlite.h"

namespace rivulet::testing {

// Dies at its `victim`th durable operation, and with it all that was not synced; true: it ended before that. `run`:
// options to a StatusOr. Of one that takes a `step` too, points are the calls of that, and no operation.
//
// At that operation everything stands still. Another thread that went on while unsynced bytes are lost would rename a
// file that has just lost them, and commit a row that names it: a death in two parts, which no machine dies.
template <typename Run>
bool EndsBefore(int victim, CoordinatorOptions options, const Run& run) {
  const pid_t child = fork();
  if (child == 0) {
    FaultyFileSystem fs;
    std::atomic<int> count = 0;
    const auto at = [&](const std::string&) {
      const int now = ++count;
      if (now == victim) {
        fs.LoseUnsynced();
        kill(getpid(), SIGKILL);
      }
      while (now > victim) pause();
      return true;
    };
    options.file_system = &fs;
    const auto ended = [&] {
      if constexpr (std::is_invocable_v<Run, CoordinatorOptions, std::function<void()>>) {
        return run(std::move(options), std::function<void()>([&] { at(""); }));
      } else {
        fs.at = [&](const std::string& point) {
          at(point);
          return absl::OkStatus();
        };
        InstallFaultySqlite(at);
        return run(std::move(options));
      }
    }();
    if (!ended.ok()) fmt::print(stderr, "child: {}\n", ended.status().ToString());
    _exit(ended.ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return true;
  }
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  return false;
}

}  // namespace rivulet::testing
