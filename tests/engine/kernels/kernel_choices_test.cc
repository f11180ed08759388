#include "engine/kernels/cpu/kernel_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/kernels/cpu/vector/cpu_targets.h"
#include "engine/program/program.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(KernelChoices, Table_IsTheSameWheneverItIsRead) {
  EnterWorkerThread();
  const auto first = KernelChoices(), second = KernelChoices();
  ASSERT_OK(first);
  EXPECT_EQ(*first, *second);
  EXPECT_THAT(*first, HasSubstr(CpuTargetName()));
  EXPECT_THAT(*first, HasSubstr("Conv2DBackpropFilter"));
}

TEST(KernelChoices, PortableTable_NamesNoLibrary) {
  EnterWorkerThread();
  KernelPolicy policy;
  policy.portable = true;
  const auto portable = KernelChoices(policy);
  ASSERT_OK(portable);
  EXPECT_THAT(*portable, Not(HasSubstr("dnnl")));
  EXPECT_THAT(*portable, Not(HasSubstr("eigen")));
}

TEST(CpuTargets, UnknownName_IsRefusedWithTheNearest) {
  const Status status = RestrictCpuTargets("avx22");
  ASSERT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'avx2'")));
  EXPECT_THAT(RestrictCpuTargets(""), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace rivulet
