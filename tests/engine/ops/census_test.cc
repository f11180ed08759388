// Every registered op has all the parts that an op needs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "dataflow/resources/async_op.h"
#include "engine/graph/op.h"
#include "engine/program/kernel.h"
#include "engine/program/structural_ops.h"
#include "engine/program/via_float32.h"

namespace rivulet {
namespace {

TEST(OpCensus, EveryOp_HasDocShapeAndGradientOrReason) {
  const auto ops = OpRegistry::Global().All();
  EXPECT_GT(ops.size(), 80u);
  for (const OpDef* op : ops) {
    EXPECT_FALSE(op->doc.empty()) << op->name << " (" << op->registered_at << ") has no doc";
    EXPECT_TRUE(op->shape != nullptr) << op->name << " (" << op->registered_at << ") has no shape function";
    EXPECT_NE(op->gradient == nullptr, op->not_differentiable.empty())
        << op->name << " (" << op->registered_at << ") needs either a gradient or a reason why there is none";
  }
}

TEST(OpCensus, EveryOp_RunsOnACpu) {
  for (const OpDef* op : OpRegistry::Global().All()) {
    // Shapes are facts of a compiled program, never computed.
    if (op->name == "Shape" || op->name == "Size" || op->name == "Rank" || op->name == "ShapeN") continue;
    EXPECT_TRUE(KernelRegistry::Global().Has(op->name, Device::kCpu) || AsyncOpRegistry::Global().Has(op->name) ||
                AsyncOpRegistry::Global().FindDynamic(op->name) != nullptr)
        << op->name << " has no kernel and is not asynchronous";
  }
}

// What waits has no kernel, and no case among the kernels' tests: a test names it.
TEST(OpCensus, EveryOpThatASessionRuns_IsTestedByName) {
  std::string tests;
  for (const char* folder : {RIVULET_SOURCE_DIR "/tests/dataflow", RIVULET_SOURCE_DIR "/tests/engine"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
      if (file.path().extension() != ".cc" && file.path().extension() != ".h") continue;
      std::ostringstream text;
      text << std::ifstream(file.path()).rdbuf();
      tests += text.str();
    }
  }
  for (const OpDef* op : OpRegistry::Global().All()) {
    const bool dynamic = AsyncOpRegistry::Global().FindDynamic(op->name) != nullptr;
    if (!AsyncOpRegistry::Global().Has(op->name) && !dynamic) continue;
    EXPECT_TRUE(dynamic || !KernelRegistry::Global().Has(op->name, Device::kCpu))
        << op->name << " has a kernel that never runs";
    EXPECT_NE(tests.find("\"" + op->name + "\""), std::string::npos) << op->name << " is in no test";
  }
}

TEST(OpCensus, EveryTypeThatAnOpAllows_HasAKernel) {
  for (const OpDef* op : OpRegistry::Global().All()) {
    if (op->name == "Shape" || op->name == "Size" || op->name == "Rank" || op->name == "ShapeN") continue;
    if (AsyncOpRegistry::Global().Has(op->name) || AsyncOpRegistry::Global().FindDynamic(op->name) != nullptr) continue;
    // The attribute that chooses the kernel.
    const AttrDef* chooses = op->FindAttr("T");
    for (const AttrDef& attr : op->attrs)
      if (chooses == nullptr && attr.kind == AttrDef::Kind::kType) chooses = &attr;
    if (chooses == nullptr || chooses->kind != AttrDef::Kind::kType) continue;
    for (DType dtype : chooses->allowed_types)
      EXPECT_TRUE(HasKernelFor(op->name, Device::kCpu, dtype) || StructuralKind(op->name) != StructuralOp::kNone)
          << op->name << " allows " << Name(dtype) << " and has no kernel for it";
  }
}

}  // namespace
}  // namespace rivulet
