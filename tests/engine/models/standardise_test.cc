#include "engine/models/standardise.h"

#include "dataflow/session/session.h"
#include "engine/models/layer_list.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One score, of weights 1, from three numbers.
StatusOr<ModelDef> SumOfThree(FeatureEncoding encoding = FeatureEncoding::kFloat) {
  ClassifierOptions options;
  options.inputs = {{"x", {3}, encoding}};
  options.target = TargetKind::kNumbers;
  options.loss = "mse";
  const std::vector<LayerSpec> layers = {
      {{"type", std::string("dense")}, {"units", int64_t{1}}, {"initializer", std::string("ones")}}};
  return ModelFromLayers(options, layers);
}

TEST(Standardise, WhatTakesTheInput_SeesItStandardised) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, SumOfThree());
  ASSERT_OK(Standardise(model, "x", std::vector<double>{1, 10, 100}, std::vector<double>{1, 2, 4}));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(model.graph.Clone()));
  ASSERT_OK(session->Run({}, {}, {model.init_target}));
  ASSERT_EQ(model.outputs[0].first, "representation");
  ASSERT_OK_AND_ASSIGN(const auto seen, session->Run({{"x", Tensor::Of<float>(Shape{2, 3}, {1, 10, 100, 2, 14, 104})}},
                                                     {"prediction", model.outputs[0].second}));
  EXPECT_THAT(seen[0].flat<float>(), ElementsAre(0, 4));
  EXPECT_THAT(seen[1].flat<float>(), ElementsAre(0, 0, 0, 1, 2, 1));
}

TEST(Standardise, WhatDoesNotFit_IsRefused) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, SumOfThree());
  const std::vector<double> ones = {1, 1, 1};
  EXPECT_THAT(Message(Standardise(model, "y", ones, ones)), HasSubstr("no input 'y'"));
  EXPECT_THAT(Message(Standardise(model, "x", ones, std::vector<double>{1, 1})),
              HasSubstr("the input 'x' has 3 values, and 3 means and 2 deviations are given"));
  EXPECT_THAT(Message(Standardise(model, "x", ones, std::vector<double>{1, 0, 1})),
              HasSubstr("a deviation of 0 is not above 0"));
  EXPECT_THAT(Message(Standardise(model, "x", std::vector<double>{1e300, 0, 0}, ones)),
              HasSubstr("1e+300 is beyond the range of a float"));
  ASSERT_OK_AND_ASSIGN(ModelDef pixels, SumOfThree(FeatureEncoding::kUint8));
  EXPECT_THAT(Message(Standardise(pixels, "x", ones, ones)), HasSubstr("is no list of floats"));
}

}  // namespace
}  // namespace rivulet
