#include "engine/datasets/leaf.h"

#include "engine/data/dataset.h"
#include "engine/datasets/characters.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LeafTest : public DataTest {
 protected:
  StatusOr<LeafCounts> Import(const std::string& from, bool pixels = false) {
    return ImportLeaf(FileSystem::Default(), {Path(from), Path("out"), pixels});
  }
  // What importing `json` says.
  std::string Error(const std::string& json, bool pixels = false) {
    Write("f.json", json);
    const auto counts = Import("f.json", pixels);
    EXPECT_FALSE(std::filesystem::exists(Path("out"))) << json;
    return counts.ok() ? "imported" : folder_.Relative(Message(counts.status()));
  }
  std::vector<std::string> Records(const std::string& file) {
    const auto records = ReadRecords(Path(file));
    EXPECT_OK(records);
    return *records;
  }
};

std::string UserOf(const std::string& record) {
  std::string_view user;
  EXPECT_OK(FindBytesFeature(record, "user", &user));
  return std::string(user);
}
std::vector<float> FeaturesOf(const std::string& record, size_t size) {
  std::vector<float> values(size);
  EXPECT_OK(FindFloatFeature(record, "features", values));
  return values;
}
std::vector<int64_t> NumbersOf(const std::string& record, const std::string& feature, size_t size) {
  std::vector<int64_t> values(size);
  EXPECT_OK(FindInt64Features(record, feature, values));
  return values;
}

constexpr const char* kTwoUsers =
    R"({"users": ["a", "b"], "hierarchies": [{"x": [1]}, "c"], "num_samples": [2, 1], "user_data": {)"
    R"("a": {"x": [[1, 2.5], [3, -4e-1]], "y": [0, 7.0]}, "b": {"y": [1], "raw": null, "x": [[[5], [6]]]}}})";

TEST_F(LeafTest, Numbers_BecomeFeaturesOfTheirUsers) {
  Write("f.json", kTwoUsers);
  const auto counts = Import("f.json");
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 3);
  EXPECT_EQ(counts->train_users, 2);
  EXPECT_FALSE(counts->has_test);
  const auto records = Records("out/train.tfrecord");
  ASSERT_EQ(records.size(), 3u);
  EXPECT_THAT(FeaturesOf(records[0], 2), ElementsAre(1.0f, 2.5f));
  EXPECT_THAT(FeaturesOf(records[1], 2), ElementsAre(3.0f, -0.4f));
  EXPECT_THAT(NumbersOf(records[1], "label", 1), ElementsAre(7));
  EXPECT_THAT(FeaturesOf(records[2], 2), ElementsAre(5.0f, 6.0f));
  EXPECT_EQ(UserOf(records[0]) + UserOf(records[1]) + UserOf(records[2]), "aab");
  EXPECT_FALSE(std::filesystem::exists(Path("out/test.tfrecord")));
}

TEST_F(LeafTest, AFolderWithTrainAndTest_GivesBothFiles) {
  std::filesystem::create_directories(Path("data/train"));
  std::filesystem::create_directories(Path("data/test"));
  Write("data/train/b.json", R"({"users": ["z"], "user_data": {"z": {"x": [[1, 1]], "y": [1]}}})");
  Write("data/train/a.json.gz", Pack(kTwoUsers, 31));
  Write("data/test/a.json", R"({"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [[9, 9]], "y": [3]}}})");
  const auto counts = Import("data");
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 4);
  EXPECT_EQ(counts->train_users, 3);
  EXPECT_EQ(counts->test, 1);
  EXPECT_EQ(counts->test_users, 1);
  EXPECT_EQ(UserOf(Records("out/train.tfrecord").back()), "z");  // files in order of their names
  EXPECT_THAT(NumbersOf(Records("out/test.tfrecord")[0], "label", 1), ElementsAre(3));
}

TEST_F(LeafTest, Pixels_BecomeBytes) {
  Write("f.json", R"({"users": ["w"], "num_samples": [1], "user_data": {"w": {"x": [[0.0, 1.0, 0.5]], "y": [61]}}})");
  ASSERT_OK(Import("f.json", true));
  std::string_view image;
  const auto records = Records("out/train.tfrecord");
  ASSERT_OK(FindBytesFeature(records[0], "image", &image));
  EXPECT_EQ(image, std::string("\0\xff\x80", 3));
}

TEST_F(LeafTest, Texts_BecomeTokensWithTheCharacterAfterEach) {
  Write("f.json", R"({"users": ["ROMEO"], "num_samples": [2],
                      "user_data": {"ROMEO": {"x": ["abc", "bc\u00e9"], "y": ["d", "\n"]}}})");
  ASSERT_OK(Import("f.json"));
  const auto records = Records("out/train.tfrecord");
  EXPECT_THAT(NumbersOf(records[0], "tokens", 3), ElementsAre(TokenOf('a'), TokenOf('b'), TokenOf('c')));
  EXPECT_THAT(NumbersOf(records[0], "label", 3), ElementsAre(TokenOf('b'), TokenOf('c'), TokenOf('d')));
  EXPECT_THAT(NumbersOf(records[1], "tokens", 3), ElementsAre(TokenOf('b'), TokenOf('c'), kUnknownCharacter));
  EXPECT_THAT(NumbersOf(records[1], "label", 3), ElementsAre(TokenOf('c'), kUnknownCharacter, TokenOf('\n')));
}

TEST_F(LeafTest, UsersWithoutSamples_GiveNothing) {
  Write("f.json", R"({"users": ["a", "b"], "num_samples": [0, 1],
                      "user_data": {"a": {"x": [], "y": []}, "b": {"x": [4], "y": [1]}}})");
  const auto counts = Import("f.json");
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train_users, 1);
  EXPECT_THAT(FeaturesOf(Records("out/train.tfrecord")[0], 1), ElementsAre(4.0f));
}

std::string OfUser(const std::string& data) { return R"({"users": ["a"], "user_data": {"a": )" + data + "}}"; }

TEST_F(LeafTest, WhatIsNotOfTheLayout_IsRefusedBySampleOrByte) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "f.json: byte 0: no JSON: "},
      {"[1]", "f.json: byte 1: it is a JSON array; LEAF's files are objects with 'users' and 'user_data'"},
      {"\"users\"", "it is a text; LEAF's files"},
      {"7", "it is a number; LEAF's files"},
      {"{}", "f.json: it has no 'user_data', which LEAF's files have"},
      {R"({"users": 3})", "it has a number as 'users'"},
      {R"({"users": [3]})", "it has a number among 'users', which are texts"},
      {R"({"users": ["a", "a"]})", "it lists the user 'a' twice"},
      {R"({"num_samples": ["a"]})", "it has a text among 'num_samples', which are whole numbers"},
      {R"({"user_data": {"a": 3}})", "it has a number as the data of the user 'a', which are an object with 'x' and"},
      {R"({"user_data": {}, "user_data": {}})", "it has 'user_data' twice"},
      {R"({"user_data": {"": {}}})", "it has a user whose name has 0 bytes, which must be 1 to 128"},
      {R"({"users": [], "user_data": {}})", "f.json: no samples"},
      {OfUser(R"({"x": [[1]]})"), "it has no 'y' for the user 'a'"},
      {OfUser(R"({"x": [[1]], "y": [1], "x": [[1]]})"), "it has 'x' twice"},
      {OfUser(R"({"x": [[1], [2]], "y": [1]})"), "it has 2 samples and 1 labels for the user 'a'"},
      {OfUser(R"({"x": [[1], [2, 3]], "y": [1, 1]})"),
       "f.json: sample 1 of the user 'a' is 2 numbers, but samples before it are 1 numbers"},
      {OfUser(R"({"x": [[1], "t"], "y": [1, "t"]})"), "it has texts and numbers for the user 'a'"},
      {OfUser(R"({"x": [[]], "y": [1]})"), "sample 0 of the user 'a' is an empty list"},
      {OfUser(R"({"x": [""], "y": ["a"]})"), "sample 0 of the user 'a' is an empty text"},
      {OfUser(R"({"x": [["id", "tweet"]], "y": [0]})"), "sample 0 of the user 'a' is a list of texts; only lists of"},
      {OfUser(R"({"x": [{"p": 1}], "y": [0]})"), "sample 0 of the user 'a' is an object, or holds it"},
      {OfUser(R"({"x": [[1, null]], "y": [0]})"), "sample 0 of the user 'a' is null, or holds it"},
      {OfUser(R"({"x": [[1e39]], "y": [0]})"), "sample 0 of the user 'a' is beyond the range of a float"},
      {OfUser(R"({"x": [[NaN]], "y": [0]})"), "f.json: byte 45: no JSON: syntax error"},
      {OfUser(R"({"x": [[1e999]], "y": [0]})"), "no JSON: number overflow parsing '1e999'"},
      {OfUser(R"({"x": [[1]], "y": [0.5]})"), "it has the label 0.5 for the user 'a'; a label is a class"},
      {OfUser(R"({"x": [[1]], "y": [-1]})"), "it has the label -1 for the user 'a'"},
      {OfUser(R"({"x": [[1]], "y": [18446744073709551615]})"), "it has the label 1.8446744073709552e+19"},
      {OfUser(R"({"x": [[1]], "y": ["s"]})"), "it has texts as labels of the user 'a', whose samples are numbers"},
      {OfUser(R"({"x": ["s"], "y": [1]})"), "it has numbers as labels of the user 'a', whose samples are texts"},
      {OfUser(R"({"x": ["s"], "y": ["ab"]})"), "sample 0 of the user 'a' is a text whose label has 2 characters"},
      {R"({"users": ["a", "b"], "user_data": {"a": {"x": [[1]], "y": [1]}}})", "'user_data' has no user 'b'"},
      {R"({"users": ["a"], "user_data": {"a": {"x": [[1]], "y": [1]}, "b": {"x": [[2]], "y": [0]}}})",
       "f.json: 'user_data' has the user 'b', but 'users' does not; add the name or remove the user's data"},
      {R"({"user_data": {"a": {"x": [[1]], "y": [1]}}})", "has the user 'a', but 'users' does not"},
      {R"({"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [[1]], "y": [1]}}})",
       "the user 'a' has 1 samples, but 'num_samples' gives 2"},
      {R"({"users": ["a"], "num_samples": [1, 1], "user_data": {"a": {"x": [[1]], "y": [1]}}})",
       "it has 1 'users' and 2 'num_samples'"},
      {R"({"user_data": {"a": {"x": [1], "y": [1]}, "a": {"x": [1], "y": [1]}}})", "the data of the user 'a' twice"},
      {std::string(R"({"user_data": {"a": {"x": [[1]], "y": [1]})"), "no JSON: syntax error"},  // cut off
      {std::string(R"({"o": )") + std::string(100000, '['), "it nests more than 64 deep"},
      {OfUser(R"({"x": )" + std::string(100000, '[')), "it nests samples more than 64 deep"},
  };
  for (const auto& [json, message] : cases) EXPECT_THAT(Error(json), HasSubstr(message)) << json.substr(0, 200);
  EXPECT_THAT(Error(OfUser(R"({"x": [[1.5]], "y": [1]})"), true),
              HasSubstr("is no image: it has 1.5, and pixels are from 0 to 1; import without --pixels"));
  EXPECT_THAT(Error(OfUser(R"({"x": ["a"], "y": ["b"]})"), true), HasSubstr("is a text and no image"));
}

TEST_F(LeafTest, ATruncatedFileNeverImports) {
  const std::string whole = kTwoUsers;
  for (size_t bytes = 0; bytes < whole.size(); bytes += 3)
    EXPECT_THAT(Error(whole.substr(0, bytes)), HasSubstr("f.json: "));
}

TEST_F(LeafTest, AMissingFile_OrAFolderWithout_IsNamed) {
  EXPECT_THAT(Message(Import("no.json").status()), HasSubstr("no.json: no such file"));
  std::filesystem::create_directory(Path("empty"));
  EXPECT_THAT(Message(Import("empty").status()), HasSubstr("empty: no *.json in this folder"));
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
  std::filesystem::create_directories(Path("half/test"));
  Write("half/test/a.json", kTwoUsers);
  EXPECT_THAT(Message(Import("half").status()), HasSubstr("half: it has test/ and no train/; give "));
  EXPECT_OK(Import("half/test"));
}

TEST_F(LeafTest, TheSyntheticSets_HaveTheirUsersAndSamples) {
  if (TestData().empty()) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  const std::pair<const char*, int64_t> sets[] = {{"0_0", 897}, {"1_1", 1084}, {"iid", 805}};
  for (const auto& [name, samples] : sets) {
    const auto counts =
        ImportLeaf(FileSystem::Default(), {fmt::format("{}/leaf/synthetic_{}/test", TestData(), name), Path("out")});
    ASSERT_OK(counts);
    EXPECT_EQ(counts->train, samples);
    EXPECT_EQ(counts->train_users, 30);
    const auto records = Records("out/train.tfrecord");
    EXPECT_EQ(FeaturesOf(records[0], 60).size(), 60u);
    EXPECT_EQ(UserOf(records[0]).substr(0, 3), "f_0");
  }
}

}  // namespace
}  // namespace rivulet
