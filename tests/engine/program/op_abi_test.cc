// Libraries of ops are built against these structures: whoever changes one raises RIVULET_OP_ABI and writes the new sizes
// here.
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
  EXPECT_EQ(sizeof(OpDef), SIZE_OPDEF);
  EXPECT_EQ(sizeof(AttrDef), SIZE_ATTRDEF);
  EXPECT_EQ(sizeof(ArgDef), SIZE_ARGDEF);
  EXPECT_EQ(sizeof(OpDefBuilder), SIZE_BUILDER);
  EXPECT_EQ(sizeof(AttrValue), SIZE_ATTRVALUE);
  EXPECT_EQ(sizeof(Tensor), SIZE_TENSOR);
  EXPECT_EQ(sizeof(Shape), SIZE_SHAPE);
  EXPECT_EQ(sizeof(Node), SIZE_NODE);
  EXPECT_EQ(sizeof(Graph), SIZE_GRAPH);
  EXPECT_EQ(sizeof(GradientContext), SIZE_GRADIENT);
  EXPECT_EQ(sizeof(NodeView), SIZE_VIEW);
  EXPECT_EQ(sizeof(KernelContext), SIZE_CONTEXT);
  EXPECT_EQ(sizeof(Prepared), SIZE_PREPARED);
#else
  GTEST_SKIP() << "the sizes are those of x86-64 with GNU's C++ library";
#endif
}

}  // namespace
}  // namespace rivulet
