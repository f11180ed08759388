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

// Two scores from an image of two channels and the means of its two numbers.
std::string OfTwoInputs() {
  return TextModel("input { " + Floats("photo", {-1, 2, 1, 1}) + " } input { " + Floats("in/num:0", {-1, 2}) +
                   " } output { name: 'y' } "
                   "initializer { name: 's' data_type: 7 dims: 2 int64_data: [-1, 2] } "
                   "initializer { name: 'w' data_type: 1 dims: 2 dims: 2 float_data: [1,2,3,4] } "
                   "node { op_type: 'Reshape' input: 'photo' input: 's' output: 'flat' } "
                   "node { op_type: 'Sub' input: 'flat' input: 'in/num:0' output: 'both' } "
                   "node { op_type: 'MatMul' input: 'both' input: 'w' output: 'y' }")
      .SerializeAsString();
}

TEST(OnnxTrainable, SeveralInputs_HaveATableEach) {
  TrainableOptions options;
  options.inputs = {{"in/num:0", {}, FeatureEncoding::kFloat, 0, "numbers"}, {"photo", {1, 1, 2}}};
  ASSERT_OK_AND_ASSIGN(const ModelDef model, ModelFromOnnx(OfTwoInputs(), options));
  EXPECT_EQ(model.input.placeholder, "photo") << "in the model's order";
  EXPECT_EQ(model.input.spec.shape.ToString(), "[?,1,1,2]") << "channels last";
  EXPECT_EQ(model.input.scale, 1.0 / 255);
  ASSERT_EQ(model.more_inputs.size(), 1u);
  EXPECT_EQ(model.more_inputs[0].placeholder, "in/num_0");
  EXPECT_EQ(model.more_inputs[0].feature, "numbers");
  EXPECT_EQ(model.more_inputs[0].encoding, FeatureEncoding::kFloat);
}

TEST(OnnxTrainable, InputsWithoutTheirTable_AreNamed) {
  const auto error = [](std::vector<InputSpec> inputs) {
    TrainableOptions options;
    options.inputs = std::move(inputs);
    return testing::ErrorOf(ModelFromOnnx(OfTwoInputs(), options));
  };
  EXPECT_THAT(error({}), HasSubstr("the model has 2 inputs, 'photo', 'in/num:0'"));
  EXPECT_THAT(error({{"photo"}}), HasSubstr("the model's input 'in/num:0' has no table [[model.inputs]]"));
  EXPECT_THAT(error({{"photo"}, {"in/num:0", {}, FeatureEncoding::kFloat}, {"age"}}),
              HasSubstr("3 tables [[model.inputs]] are given"));
  EXPECT_THAT(error({{"photo"}, {"in/num:0", {3}, FeatureEncoding::kFloat}}),
              HasSubstr("examples [3] do not fit the model's input 'in/num:0'"));
}

}  // namespace
}  // namespace rivulet::onnx
