#include "engine/onnx/trainable.h"

#include "tests/engine/onnx/text_model.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::onnx {
namespace {

using ::testing::AllOf;
using testing::Floats;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TextModel;

// Scores of 3 classes from 4 numbers, reshaped as exporters without open axes write it.
std::string Exported(int batch, int reshaped) {
  return TextModel("input { " + Floats("x", {batch, 2, 2}) + " } output { name: 'y' } " +
                   "initializer { name: 'w' data_type: 1 dims: 4 dims: 3 float_data: [1,2,3,4,5,6,7,8,9,10,11,12] } "
                   "initializer { name: 's' data_type: 7 dims: 2 int64_data: [" +
                   std::to_string(reshaped) +
                   ", 4] } "
                   "node { op_type: 'Reshape' input: 'x' input: 's' output: 'flat' } "
                   "node { op_type: 'MatMul' input: 'flat' input: 'w' output: 'y' }")
      .SerializeAsString();
}

TEST(OnnxTrainable, FixedBatch_IsToldWithItsMend) {
  EXPECT_THAT(ModelFromOnnx(Exported(8, 8), {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("exported for batches of 8"), HasSubstr("dynamic_shapes"),
                             HasSubstr("dynamic_axes"), HasSubstr("'x'"))));
}

TEST(OnnxTrainable, BatchThatNothingComputesWith_IsLeftOpen) {
  EXPECT_OK(ModelFromOnnx(Exported(8, -1), {}).status());
  EXPECT_OK(ModelFromOnnx(Exported(-1, -1), {}).status());
}

}  // namespace
}  // namespace rivulet::onnx
