#include "engine/kernels/cpu/kernel_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/kernels/cpu/cpu_targets.h"
#include "engine/program/program.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(KernelChoices, Table_IsTheSameWheneverItIsRead) {
  EnterWorkerThread();
  const auto first = KernelChoices(), second = KernelChoices();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*first, *second);
  EXPECT_THAT(*first, HasSubstr(CpuTargetName()));
  EXPECT_THAT(*first, HasSubstr("Conv2DBackpropFilter"));
}

TEST(KernelChoices, PortableTable_NamesNoLibrary) {
  EnterWorkerThread();
  KernelPolicy policy;
  policy.portable = true;
  const auto portable = KernelChoices(policy);
  ASSERT_TRUE(portable.ok()) << portable.status();
  EXPECT_THAT(*portable, Not(HasSubstr("dnnl")));
  EXPECT_THAT(*portable, Not(HasSubstr("eigen")));
}

TEST(CpuTargets, UnknownName_IsRefusedWithTheNearest) {
  const Status status = RestrictCpuTargets("avx22");
  ASSERT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(Message(status)), HasSubstr("'avx2'"));
  EXPECT_FALSE(RestrictCpuTargets("").ok());
}

}  // namespace
}  // namespace rivulet
