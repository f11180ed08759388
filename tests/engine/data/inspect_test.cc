#include "engine/data/inspect.h"

#include <nlohmann/json.hpp>

#include "proto/graph/example.pb.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InspectTest : public DataTest {
 protected:
  std::string Error(const std::string& path, const std::string& label = "") {
    const auto summary = InspectRecords(path, label);
    return folder_.Relative(summary.ok() ? "read" : Message(summary.status()));
  }
};

std::string Digit(int label) {
  return ExampleBuilder().Int64("label", label).Bytes("image", std::string(784, 'p')).Serialize();
}

TEST_F(InspectTest, Examples_AreSummedUp) {
  const std::string path = Write("f", Frames({Digit(3), Digit(7), Digit(3)}));
  const auto summary = InspectRecords(path);
  ASSERT_OK(summary);
  EXPECT_EQ(summary->examples, 3);
  EXPECT_EQ(summary->labels, (std::map<int64_t, int64_t>{{3, 2}, {7, 1}}));
  const auto json = nlohmann::json::parse(ToJson(*summary));
  EXPECT_EQ(json["examples"], 3);
  EXPECT_EQ(json["features"]["image"]["dtype"], "bytes");
  EXPECT_EQ(json["features"]["image"]["shape"], nlohmann::json::array({784}));
  EXPECT_EQ(json["features"]["label"]["dtype"], "int64");
  EXPECT_EQ(json["features"]["label"]["shape"], nlohmann::json::array());
  EXPECT_EQ(json["labels"], (nlohmann::json{{"3", 2}, {"7", 1}}));
  EXPECT_EQ(json["bytes"], std::filesystem::file_size(path));
  const std::string text = ToText(*summary);
  EXPECT_THAT(text, HasSubstr("examples  3\n"));
  EXPECT_THAT(text, HasSubstr("image  bytes[784]\n"));
  EXPECT_THAT(text, HasSubstr("label  int64\n"));
  EXPECT_THAT(text, HasSubstr("       3          2  ########################################\n"));
  EXPECT_THAT(text, HasSubstr("       7          1  ####################\n"));
}

TEST_F(InspectTest, FeaturesThatVary_HaveUnknownDimensions) {
  const std::vector<float> two = {1, 2}, three = {1, 2, 3};
  const auto summary =
      InspectRecords(Write("f", Frames({ExampleBuilder().Bytes("b", "xy").Floats("f", two).Int64("m", 1).Serialize(),
                                        ExampleBuilder().Bytes("b", "").Floats("f", three).Floats("m", two).Serialize(),
                                        ExampleBuilder().Bytes("b", "x").Serialize()})));
  ASSERT_OK(summary);
  EXPECT_THAT(summary->features.at("b").Shape(), ElementsAre(-1));
  EXPECT_THAT(summary->features.at("f").Shape(), ElementsAre(-1));
  EXPECT_EQ(summary->features.at("f").examples, 2);
  EXPECT_TRUE(summary->features.at("m").mixed);
  EXPECT_EQ(summary->label_feature, "");
  EXPECT_THAT(ToText(*summary), HasSubstr("f  float[?]  in 2 of 3\n"));
}

TEST_F(InspectTest, LabelOfAnotherName_IsFoundWhenItIsTheOnlyOne) {
  const std::string path = Write(
      "f", Frames({ExampleBuilder().Int64("class", 4).Serialize(), ExampleBuilder().Int64("class", 5).Serialize()}));
  EXPECT_EQ(InspectRecords(path)->label_feature, "class");
  const std::string two = Write("g", Frames({ExampleBuilder().Int64("class", 4).Int64("id", 4).Serialize()}));
  EXPECT_EQ(InspectRecords(two)->label_feature, "");
  EXPECT_EQ(InspectRecords(two, "id")->label_feature, "id");
  EXPECT_EQ(Error(two, "klass"), "g: no example has a feature 'klass'");
  EXPECT_EQ(Error(Write("h", Frames({ExampleBuilder().Bytes("b", "x").Serialize()})), "b"),
            "h: feature 'b' does not have one int64 value in each example");
}

TEST_F(InspectTest, OtherRecords_AreCountedAndNoError) {
  proto::SequenceExample sequence;
  (*sequence.mutable_feature_lists()->mutable_feature_list())["s"].add_feature();
  (*sequence.mutable_context()->mutable_feature())["length"].mutable_int64_list()->add_value(2);
  const auto summary = InspectRecords(Write("f", Frames({sequence.SerializeAsString(), "free text", "\xff\xfe"})));
  ASSERT_OK(summary);
  EXPECT_EQ(summary->records, 3);
  EXPECT_EQ(summary->examples, 0);
  EXPECT_EQ(summary->sequence_examples, 1);
  EXPECT_EQ(summary->others, 2);
  EXPECT_TRUE(summary->features.contains("length"));
  EXPECT_THAT(ToText(*summary), HasSubstr("records of tf.train.SequenceExample  1\n"));
  EXPECT_THAT(ToText(*summary), HasSubstr("records that are no tf.train.Example  2\n"));
}

TEST_F(InspectTest, NamesThatAreNotText_GiveValidJsonAndOneLineEach) {
  const auto summary =
      InspectRecords(Write("f", Frames({ExampleBuilder().Int64(std::string("a\n\xff", 3), 4).Serialize()})));
  ASSERT_OK(summary);
  EXPECT_TRUE(nlohmann::json::accept(ToJson(*summary)));
  EXPECT_THAT(ToText(*summary), HasSubstr("a?"));
}

TEST_F(InspectTest, EmptyFile_HasNothing) {
  const auto summary = InspectRecords(Write("f", ""));
  ASSERT_OK(summary);
  EXPECT_EQ(summary->records, 0);
  EXPECT_EQ(nlohmann::json::parse(ToJson(*summary))["labels"], nlohmann::json::object());
}

TEST_F(InspectTest, Damage_IsToldByFileRecordAndByte) {
  std::string file = Frames({Digit(1), Digit(2)});
  file[file.size() - 1] ^= 1;
  const std::string path = Write("f", file);
  EXPECT_THAT(Error(path), HasSubstr("f: record 1 at byte "));
  EXPECT_THAT(VerifyRecords(path).status().ToString(), HasSubstr("f: record 1 at byte "));
  EXPECT_EQ(VerifyRecords(Write("g", Frames({"a", "bc"})))->records, 2);
  EXPECT_EQ(VerifyRecords(Path("g"))->bytes, 35);
}

TEST_F(InspectTest, FilesOfTensorFlow_HaveTheirKnownFeatures) {
  if (TestData().empty()) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  const std::string folder = TestData() + "/tfrecord/";
  const auto penguin = InspectRecords(folder + "penguin-train-00000-of-00001.gz");
  ASSERT_OK(penguin);
  EXPECT_EQ(penguin->examples, 234);
  EXPECT_EQ(penguin->label_feature, "species");
  EXPECT_EQ(penguin->features.size(), 5u);
  EXPECT_EQ(penguin->features.at("body_mass_g").kind, FeatureKind::kFloat);
  const auto mnist = InspectRecords(folder + "mnist.tfrecord");
  EXPECT_THAT(mnist->features.at("image_floats").Shape(), ElementsAre(784));
  EXPECT_EQ(mnist->label_feature, "image_class");
  EXPECT_EQ(mnist->labels.size(), 10u);
  const auto taxi = InspectRecords(folder + "chicago-taxi-eval-00000-of-00012.gz");
  EXPECT_EQ(taxi->examples, 424);
  const auto cifar = InspectRecords(folder + "cifar10_train.tfrecord");
  EXPECT_THAT(cifar->features.at("image").Shape(), ElementsAre(-1));
  EXPECT_EQ(cifar->features.at("label").kind, FeatureKind::kInt64);
  const auto sequence = InspectRecords(folder + "sequence-example-eval.gz");
  EXPECT_EQ(sequence->sequence_examples, 4500);
  EXPECT_EQ(sequence->examples, 0);
  const auto statistics = InspectRecords(folder + "iris-stats-train.tfrecord");
  EXPECT_EQ(statistics->others, 1);
}

}  // namespace
}  // namespace rivulet
