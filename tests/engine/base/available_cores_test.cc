// The number of processors that a process may use, and limits by control groups.
#include "engine/base/available_cores.h"

#include <gmock/gmock.h>
#include <sched.h>

#include <thread>

#include "engine/base/control_groups.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> FoldersIn(std::string_view groups, std::string_view controller) {
  std::vector<std::string> folders;
  for (const ControlGroup& group : ControlGroupsIn(groups, controller)) folders.push_back(group.folder);
  return folders;
}

TEST(ControlGroupsTest, Version2_HasTheGroupAndAllAbove) {
  EXPECT_THAT(FoldersIn("0::/a/b\n", "cpu"), ElementsAre("/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"));
  EXPECT_THAT(FoldersIn("0::/", "cpu"), ElementsAre("/sys/fs/cgroup"));
}

TEST(ControlGroupsTest, Version1_HasTheControllersOwn) {
  constexpr char kGroups[] = "5:cpu,cpuacct:/job\n4:memory:/\n3:cpuset:/job\n";
  EXPECT_THAT(FoldersIn(kGroups, "cpu"), ElementsAre("/sys/fs/cgroup/cpu/job", "/sys/fs/cgroup/cpu"));
  EXPECT_THAT(FoldersIn(kGroups, "memory"), ElementsAre("/sys/fs/cgroup/memory"));
  EXPECT_THAT(FoldersIn(kGroups, "pids"), IsEmpty());
}

TEST(ControlGroupsTest, LinesThatAreNone_AreLeftOut) {
  EXPECT_THAT(FoldersIn("", "cpu"), IsEmpty());
  EXPECT_THAT(FoldersIn("no group\n:\n", "cpu"), IsEmpty());
}

TEST(AvailableCoresTest, Quota_IsRoundedUp) {
  EXPECT_EQ(CoresOfQuota(150'000, 100'000), 2);
  EXPECT_EQ(CoresOfQuota(50'000, 100'000), 1);
  EXPECT_EQ(CoresOfQuota(-1, 100'000), 0);
  EXPECT_EQ(CoresOfQuota(100'000, 0), 0);
}

// Of the thread that asks alone, so that no other test sees it.
TEST(AvailableCoresTest, BoundToOne_IsOne) {
  int cores = 0;
  std::thread([&cores] {
    cpu_set_t before, first;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    int allowed = 0;
    while (!CPU_ISSET(allowed, &before)) ++allowed;
    CPU_ZERO(&first);
    CPU_SET(allowed, &first);
    ASSERT_EQ(sched_setaffinity(0, sizeof(first), &first), 0);
    cores = AvailableCores();
  }).join();
  EXPECT_EQ(cores, 1);
}

}  // namespace
}  // namespace rivulet
