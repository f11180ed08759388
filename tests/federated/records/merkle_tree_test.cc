// The tree over a version's updates: roots as in RFC 9162, and paths that prove exactly one leaf.
#include "federated/records/merkle_tree.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/testing/status_matchers.h"

namespace rivulet::records {
namespace {

Digest RawLeaf(std::string_view bytes) {
  Sha256 hash;
  hash.UpdateU8(0).Update(bytes);
  return std::move(hash).Finish();
}

std::vector<Digest> Leaves(int64_t count) {
  std::vector<Digest> leaves;
  for (int64_t i = 0; i < count; ++i) leaves.push_back(LeafOf(fmt::format("run-r1-a1-c{}-0", i), std::nullopt));
  return leaves;
}

// The eight inputs of Certificate Transparency's reference tests; the roots by the recursive definition, in Python.
TEST(MerkleTree, HasTheRootsOfCertificateTransparency) {
  using std::string_view_literals::operator""sv;
  const std::vector<std::string_view> inputs = {"",         "\x00"sv,           "\x10",     "\x20\x21",
                                                "\x30\x31", "\x40\x41\x42\x43", "PQRSTUVW", "`abcdefghijklmno"};
  const std::vector<const char*> roots = {"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                                          "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
                                          "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
                                          "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
                                          "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
                                          "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
                                          "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
                                          "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
                                          "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};
  std::vector<Digest> leaves;
  for (size_t n = 0; n < roots.size(); ++n) {
    EXPECT_EQ(MerkleTree(leaves).root().Hex(), roots[n]) << n;
    if (n < inputs.size()) leaves.push_back(RawLeaf(inputs[n]));
  }
}

TEST(MerkleTree, PathsOfEveryLeaf_LeadToTheRoot_AndThoseOfOthersDoNot) {
  for (int64_t size = 1; size <= 40; ++size) {
    const std::vector<Digest> leaves = Leaves(size);
    const MerkleTree tree(leaves);
    EXPECT_EQ(tree.size(), size);
    for (int64_t i = 0; i < size; ++i) {
      const MerklePath path = tree.PathOf(i);
      ASSERT_OK_AND_ASSIGN(const Digest root, RootOf(leaves[static_cast<size_t>(i)], path));
      EXPECT_EQ(root, tree.root());
      const auto other = RootOf(leaves[static_cast<size_t>((i + 1) % size)], path);
      ASSERT_OK(other);
      EXPECT_EQ(*other == tree.root(), size == 1);
    }
  }
}

TEST(MerkleTree, PathsThatNoTreeHas_AreRefused) {
  const std::vector<Digest> leaves = Leaves(6);
  const MerkleTree tree(leaves);
  const auto refused = [&](const auto& change) {
    MerklePath path = tree.PathOf(4);
    change(path);
    EXPECT_THAT(RootOf(leaves[4], path), testing::StatusIs(absl::StatusCode::kInvalidArgument));
  };
  refused([](MerklePath& path) { path.index = 6; });
  refused([](MerklePath& path) { path.index = -1; });
  refused([](MerklePath& path) { path.size = 0; });
  refused([](MerklePath& path) { path.siblings.pop_back(); });
  refused([](MerklePath& path) { path.siblings.push_back({}); });
  refused([](MerklePath& path) { path.siblings.clear(); });
  for (size_t i = 0; i < tree.PathOf(4).siblings.size(); ++i) {
    MerklePath path = tree.PathOf(4);
    path.siblings[i].bytes[7] ^= 1;
    ASSERT_OK_AND_ASSIGN(const Digest root, RootOf(leaves[4], path));
    EXPECT_NE(root, tree.root()) << i;
  }
}

TEST(GrowingTree, HasTheRootsOfTheWholeTree) {
  GrowingTree growing;
  for (int64_t size = 0; size <= 70; ++size) {
    EXPECT_EQ(growing.size(), size);
    EXPECT_EQ(growing.root(), MerkleTree(Leaves(size)).root()) << size;
    growing.Add(LeafOf(fmt::format("run-r1-a1-c{}-0", size), std::nullopt));
  }
}

// A task's name cannot take bytes of an identity.
TEST(MerkleTree, LeavesOfUnlikeUpdates_AreUnlike) {
  const Digest identity = Sha256Of("an update");
  const TaskId longer = "task" + std::string(identity.AsBytes());
  EXPECT_NE(LeafOf("task", identity), LeafOf(longer, std::nullopt));
  EXPECT_NE(LeafOf("task", identity), LeafOf("task", std::nullopt));
  EXPECT_NE(LeafOf("task", std::nullopt), LeafOf("tasks", std::nullopt));
}

}  // namespace
}  // namespace rivulet::records
