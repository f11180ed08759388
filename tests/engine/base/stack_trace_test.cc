#include "engine/base/stack_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "engine/base/check.h"

namespace rivulet {

// Outside an anonymous namespace and never inlined, so that the trace has their names.
__attribute__((noinline)) void PlantedBrokenInvariant(int balance) {
  RIVULET_CHECK(balance >= 0, "the balance is {}", balance);
  std::fflush(stdout);  // no tail call
}
__attribute__((noinline)) int PlantedNullDereference(const volatile int* address) { return *address + 1; }

namespace {

TEST(StackTraceDeathTest, FailedCheck_SaysWhereWhyAndWhoCalled) {
  EXPECT_DEATH(PlantedBrokenInvariant(-3),
               "fatal: .*stack_trace_test.cc:[0-9]+: check `balance >= 0` failed. the balance is -3(.|\n)*"
               "    @ 0x[0-9a-f]+  rivulet::PlantedBrokenInvariant");
}

TEST(StackTraceDeathTest, FailedCheckUnderTheHandler_PrintsOneTrace) {
  const auto die = [] {
    InstallFatalSignalHandler();
    PlantedBrokenInvariant(-3);
  };
  EXPECT_EXIT(die(), ::testing::KilledBySignal(SIGABRT), "rivulet::PlantedBrokenInvariant");
  EXPECT_EXIT(
      die(), [](int) { return true; }, ::testing::Not(::testing::HasSubstr("signal SIGABRT")));
}

TEST(StackTraceDeathTest, SegmentationFault_SaysTheAddressAndWhoCalled) {
  EXPECT_EXIT(
      {
        InstallFatalSignalHandler();
        PlantedNullDereference(reinterpret_cast<const int*>(0x10));
      },
      ::testing::KilledBySignal(SIGSEGV),
      "fatal: signal SIGSEGV \\(address 0x10\\)(.|\n)*rivulet::PlantedNullDereference");
}

}  // namespace
}  // namespace rivulet
