// Parsers of bytes that come from outside, each as one function of those bytes. libFuzzer looks for what breaks them
// (preset `fuzz`, fuzzer.cc); fuzz_test.cc runs the seeds, what was found before, and some thousand changed seeds in
// every build.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"
#include "tests/fuzz/changes.h"

namespace rivulet::fuzz {

// A change of bytes that keeps their structure; within it, `change` changes what may be anything.
using StructuredChange =
    std::function<std::string(std::string_view bytes, std::mt19937& random, const ChangeBytes& change)>;

struct Target {
  std::string name;
  // Reads `bytes` as the program would. Whether they were accepted; what was said about them does not matter. Checks of
  // its own abort. Deterministic: the same bytes do the same.
  std::function<bool(std::string_view bytes)> run;
  // Small inputs that are accepted, so that a search begins behind the first check.
  std::function<std::vector<std::string>()> seeds;
  // Where nearly every change of bytes would end at the first check: one that gets behind it. A search takes it three
  // times of four.
  StructuredChange change = {};
};

// ChangedMessage of what begins at the byte `at`.
StructuredChange MessageFrom(size_t at);

// All targets, by name.
const std::vector<Target>& Targets();

// Static objects of targets/*.cc.
struct Registered {
  explicit Registered(Target target);
};

// For parsers that take a path: a file in memory that holds `bytes`, until the next call. Not thread-safe.
std::string FileOf(std::string_view bytes);
// The same under a name that ends in ".json", for those that go by it: a link, which goes with the process.
std::string JsonFileOf(std::string_view bytes);

// For importers, which write what they have read: takes every file and keeps none.
FileSystem& Nowhere();

}  // namespace rivulet::fuzz
