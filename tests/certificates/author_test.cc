#include "certificates/author.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "certificates/key.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

std::string Hex(const std::string& digits) { return absl::HexStringToBytes(digits); }

// RFC 8032, 7.1, test 2.
const std::string kRfcAuthor = Hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
const std::string kRfcSignature = Hex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb0"
    "0d291612bb0c00");

TEST(AuthorTest, RfcVector_IsSigned) {
  EXPECT_TRUE(IsSignedBy(kRfcAuthor, "\x72", kRfcSignature));
  EXPECT_FALSE(IsSignedBy(kRfcAuthor, "\x73", kRfcSignature));
}

TEST(AuthorTest, WhatAnAuthorSigned_IsHisAndOfTheseBytesOnly) {
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, MakeAuthorKey());
  ASSERT_OK_AND_ASSIGN(const KeyHandle other, MakeAuthorKey());
  ASSERT_OK_AND_ASSIGN(const std::string author, AuthorOf(key.get(), "a.key"));
  ASSERT_OK_AND_ASSIGN(const std::string another, AuthorOf(other.get(), "b.key"));
  ASSERT_OK_AND_ASSIGN(const std::string signature, Sign(key.get(), "a plan"));
  EXPECT_EQ(signature.size(), kSignatureBytes);
  EXPECT_TRUE(IsSignedBy(author, "a plan", signature));
  EXPECT_FALSE(IsSignedBy(author, "a plan ", signature));
  EXPECT_FALSE(IsSignedBy(another, "a plan", signature));
  std::string changed = signature;
  changed[5] ^= 1;
  EXPECT_FALSE(IsSignedBy(author, "a plan", changed));
  EXPECT_FALSE(IsSignedBy(author, "a plan", signature.substr(1)));
  EXPECT_FALSE(IsSignedBy("", "a plan", ""));
}

TEST(AuthorTest, Text_ReadsBackAsTheSameAuthor) {
  const std::string text = AuthorText(kRfcAuthor);
  EXPECT_EQ(text, "ed25519:PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=");
  ASSERT_OK_AND_ASSIGN(const std::string author, ParseAuthor(text));
  EXPECT_EQ(author, kRfcAuthor);
}

TEST(AuthorTest, OtherTexts_AreRefusedByName) {
  const std::string text = AuthorText(kRfcAuthor);
  for (const std::string& wrong : {std::string(), std::string("ed25519:"), text + "=", text + " ", " " + text,
                                   text.substr(0, text.size() - 4), "rsa:" + text.substr(8), text.substr(8)}) {
    EXPECT_THAT(ParseAuthor(wrong), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no author")));
  }
}

TEST(AuthorTest, KeyOfACertificate_IsNoAuthors) {
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, MakeKey());
  EXPECT_THAT(AuthorOf(key.get(), "node.key"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'node.key' is no author's key")));
}

}  // namespace
}  // namespace rivulet
