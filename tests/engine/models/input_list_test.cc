// Models of several inputs.
#include "engine/models/input_list.h"

#include <fstream>
#include <sstream>

#include "dataflow/session/session.h"
#include "engine/graphdef/graph_def.h"
#include "engine/models/layer_list.h"
#include "tests/engine/models/setting_rows.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;

std::string Words(const char* text) { return text; }

InputTable Table(const char* name, std::vector<int64_t> shape, const char* kind, InputTable more = {}) {
  more["name"] = Words(name);
  more["shape"] = std::move(shape);
  more["kind"] = Words(kind);
  return more;
}
std::string TableError(const std::vector<InputTable>& tables) { return testing::ErrorOf(InputsFromTables(tables)); }

TEST(InputsFromTables, EachTable_IsAnInput) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<InputSpec> inputs,
      InputsFromTables(std::vector<InputTable>{Table("photo", {8, 8, 3}, "pixels"),
                                               Table("age", {1}, "values", {{"feature", Words("years")}}),
                                               Table("shop", {2}, "tokens", {{"vocabulary", int64_t{9}}})}));
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_EQ(inputs[0].shape, (std::vector<int64_t>{8, 8, 3}));
  EXPECT_EQ(inputs[0].encoding, FeatureEncoding::kUint8);
  EXPECT_EQ(inputs[1].feature, "years");
  EXPECT_EQ(inputs[1].encoding, FeatureEncoding::kFloat);
  EXPECT_EQ(inputs[2].vocabulary, 9);
}

TEST(InputsFromTables, Mistakes_NameInputKeyAndNearest) {
  const InputTable age = Table("age", {1}, "values");
  EXPECT_THAT(TableError({{{"shape", int64_t{1}}}}), HasSubstr("input 1: name must be given"));
  EXPECT_THAT(TableError({Table("", {1}, "values")}), HasSubstr("input 1: name must not be empty"));
  EXPECT_THAT(TableError({age, age}), HasSubstr("input 2: the name 'age' is taken"));
  EXPECT_THAT(TableError({Table("age", {1}, "value")}), HasSubstr("not \"value\". Did you mean 'values'?"));
  EXPECT_THAT(TableError({Table("age", {0}, "values")}), HasSubstr("shape must be at least 1, not 0"));
  EXPECT_THAT(TableError({Table("age", {1}, "values", {{"feture", Words("x")}})}),
              HasSubstr("Did you mean 'feature'?"));
  EXPECT_THAT(TableError({Table("age", {1}, "values", {{"vocabulary", int64_t{3}}})}),
              HasSubstr("input 1 ('age'): only tokens have a vocabulary"));
}

// ---- As layers take them -------------------------------------------------------------------------------------------

LayerSpec LayerOf(const char* type, LayerSpec more = {}) {
  more["type"] = Words(type);
  return more;
}

ClassifierOptions AgeAndShop() {
  ClassifierOptions options;
  options.inputs = {{"age", {2}, FeatureEncoding::kFloat}, {"shop", {1}, FeatureEncoding::kInt64, 0, "shop_number"}};
  return options;
}

// Scores from an embedding of the shop beside two numbers.
std::vector<LayerSpec> Joined() {
  return {LayerOf("embedding",
                  {{"name", Words("row")}, {"from", Words("shop")}, {"vocabulary", int64_t{5}}, {"units", int64_t{3}}}),
          LayerOf("flatten", {{"name", Words("flat")}}),
          LayerOf("concat", {{"from", Words("age")}, {"with", Words("flat")}}),
          LayerOf("dense", {{"units", int64_t{2}}, {"initializer", Words("ones")}})};
}

TEST(SeveralInputs, Branches_AreJoined) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, ModelFromLayers(AgeAndShop(), Joined()));
  EXPECT_EQ(model.input.placeholder, "age");
  EXPECT_EQ(model.input.scale, 1);
  ASSERT_EQ(model.more_inputs.size(), 1u);
  const ModelInput& shop = model.more_inputs[0];
  EXPECT_EQ(shop.placeholder, "shop");
  EXPECT_EQ(shop.feature, "shop_number");
  EXPECT_EQ(shop.spec, (TensorSpec{DType::kInt64, {kUnknownDim, 1}}));
  EXPECT_EQ(shop.upper_bound, 5) << "of the embedding that takes it";
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(model.graph), {.seed = 5}));
  ASSERT_OK(session->Run({}, {}, {model.init_target}));
  ASSERT_OK(session->SetVariable("row/embeddings",
                                 Tensor::Of<float>(Shape{5, 3}, {0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0})));
  ASSERT_OK_AND_ASSIGN(const auto scores, session->Run({{"age", Tensor::Of<float>(Shape{2, 2}, {10, 20, 30, 40})},
                                                        {"shop", Tensor::Of<int64_t>(Shape{2, 1}, {1, 2})}},
                                                       {"logits"}));
  EXPECT_THAT(scores[0].flat<float>(), ::testing::ElementsAre(36, 36, 85, 85));
}

TEST(SeveralInputs, OneOfTheUsualName_IsTheModelOfOne) {
  ClassifierOptions named, usual;
  named.inputs = {{"image", {28, 28, 1}}};
  const std::vector<LayerSpec> layers = {LayerOf("flatten"), LayerOf("dense", {{"units", int64_t{10}}})};
  ASSERT_OK_AND_ASSIGN(const ModelDef one, ModelFromLayers(usual, layers));
  ASSERT_OK_AND_ASSIGN(const ModelDef other, ModelFromLayers(named, layers));
  EXPECT_TRUE(SerializeGraph(one.graph) == SerializeGraph(other.graph));
  EXPECT_EQ(one.input.scale, other.input.scale);
  EXPECT_TRUE(other.more_inputs.empty());
}

TEST(SeveralInputs, Mistakes_NameTheInput) {
  const auto error = [](const ClassifierOptions& options, const std::vector<LayerSpec>& layers) {
    return testing::ErrorOf(ModelFromLayers(options, layers));
  };
  std::vector<LayerSpec> layers = Joined();
  layers[2]["with"] = Words("shp");
  EXPECT_THAT(error(AgeAndShop(), layers),
              HasSubstr("with = \"shp\" names no layer before this one. Did you mean 'shop'?"));
  EXPECT_THAT(error(AgeAndShop(), {LayerOf("dense", {{"units", int64_t{2}}})}),
              HasSubstr("no layer takes the input 'shop'"));
  layers = Joined();
  layers[0]["name"] = Words("age");
  EXPECT_THAT(error(AgeAndShop(), layers), HasSubstr("layer 1 ('age', embedding): the name is taken"));
  ClassifierOptions options = AgeAndShop();
  options.inputs[0].name = "label";
  layers = Joined();
  layers[2]["from"] = Words("label");
  EXPECT_THAT(error(options, layers), HasSubstr("the input 'label': the name is taken"));
  options.inputs[0].name = "my age";
  EXPECT_THAT(error(options, layers), HasSubstr("the input 'my age': name must begin with a letter"));
  layers = Joined();
  layers[2]["with"] = Words("shop");
  EXPECT_THAT(error(AgeAndShop(), layers), HasSubstr("layer 3 ('concat1', concat)"));
}

TEST(InputReference, IsWhatTheDocumentHolds) {
  const std::string path = std::string(RIVULET_SOURCE_DIR) + "/docs/reference/models.md";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string page = text.str();
  const std::string begin = "<!-- inputs: begin -->\n", end = "<!-- inputs: end -->\n";
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const size_t start = from + begin.size();
  if (std::getenv("RIVULET_UPDATE_DOCS") != nullptr) {
    page.replace(start, to - start, testing::SettingRows(InputKeys()));
    std::ofstream(path) << page;
    return;
  }
  EXPECT_EQ(page.substr(start, to - start), testing::SettingRows(InputKeys()))
      << "run this test with RIVULET_UPDATE_DOCS=1 to bring docs/reference/models.md up to date";
}

}  // namespace
}  // namespace rivulet
