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

// Kills the process at its `victim`-th durable operation; all unsynced data is lost. Returns true if the run ended
// before that. `run` maps options to a StatusOr. If it also takes a `step`, the points are calls of `step` instead.
//
// At that operation all threads stop. Otherwise another thread could continue while unsynced bytes are lost: it could
// rename a damaged file and commit a row that names it, which no real crash produces.
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
