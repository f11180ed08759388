// The reference values of the test data (privacy/vectors.json). Tests that need them are skipped without
// RIVULET_TEST_DATA.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/json.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

class PrivacyVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const folder = getenv("RIVULET_TEST_DATA");
    if (folder == nullptr) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
    const std::string path = JoinPath(folder, "privacy/vectors.json");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    ASSERT_OK_AND_ASSIGN(const std::string text, FileSystem::Default().ReadAll(path));
    ASSERT_OK_AND_ASSIGN(all_, Json::Parse(text));
  }
  const std::vector<Json>& All() const { return all_.At("vectors").elements(); }
  std::vector<Json> Group(std::string_view name) const {
    std::vector<Json> group;
    for (const Json& vector : All())
      if (vector.At("group").text() == name) group.push_back(vector);
    return group;
  }

 private:
  Json all_;
};

}  // namespace rivulet::testing
