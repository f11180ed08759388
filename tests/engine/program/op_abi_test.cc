// Op libraries are compiled against these structures: a change of one must increase RIVULET_OP_ABI and record the new
// sizes here.
#include <gtest/gtest.h>

#include "engine/gradients/gradients.h"
#include "engine/graph/op.h"
#include "engine/program/kernel.h"
#include "engine/program/op_library.h"

namespace rivulet {
namespace {

TEST(OpAbi, SizesOfWhatLibrariesSee_AreThoseOfTheNumber) {
  static_assert(RIVULET_OP_ABI == 1, "write the sizes of the new number below");
#if defined(__x86_64__) && defined(__GLIBCXX__)
  EXPECT_EQ(sizeof(OpDef), 272u);
  EXPECT_EQ(sizeof(AttrDef), 176u);
  EXPECT_EQ(sizeof(ArgDef), 136u);
  EXPECT_EQ(sizeof(OpDefBuilder), 272u);
  EXPECT_EQ(sizeof(AttrValue), 64u);
  EXPECT_EQ(sizeof(Tensor), 56u);
  EXPECT_EQ(sizeof(Shape), 32u);
  EXPECT_EQ(sizeof(Node), 232u);
  EXPECT_EQ(sizeof(Graph), 136u);
  EXPECT_EQ(sizeof(GradientContext), 256u);
  EXPECT_EQ(sizeof(NodeView), 96u);
  EXPECT_EQ(sizeof(KernelContext), 88u);
  EXPECT_EQ(sizeof(Prepared), 88u);
#else
  GTEST_SKIP() << "the sizes are those of x86-64 with GNU's C++ library";
#endif
}

}  // namespace
}  // namespace rivulet
