// The published vectors of the primitives: RFC 7748, 5869 and 6979, SP 800-38A, and those of the GCM specification.
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/params.h>

#include <algorithm>
#include <numeric>

#include "certificates/key.h"
#include "certificates/signature.h"
#include "federated/secure/key_agreement.h"
#include "federated/secure/key_derivation.h"
#include "federated/secure/keystream.h"
#include "federated/secure/sealing.h"
#include "tests/testing/hexadecimal.h"

namespace rivulet::secure {
namespace {

using absl::StatusCode;
using testing::Bytes;
using testing::BytesOf;
using ::testing::HasSubstr;
using testing::HexOf;
using testing::StatusIs;

PublicKey KeyOf(std::string_view hex) {
  PublicKey key{};
  const std::vector<uint8_t> bytes = Bytes(hex);
  std::copy_n(bytes.begin(), std::min(bytes.size(), key.size()), key.begin());
  return key;
}

StatusOr<AgreementKey> PrivateOf(std::string_view hex) {
  return AgreementKey::FromPrivate(std::span<const uint8_t>(Bytes(hex)).first<32>());
}

std::string Agreed(std::string_view scalar, std::string_view point) {
  const auto key = PrivateOf(scalar);
  if (!key.ok()) return testing::ErrorOf(key);
  const auto secret = key->Agree(KeyOf(point));
  return secret.ok() ? HexOf(secret->span()) : testing::ErrorOf(secret);
}

// RFC 7748, section 5.2.
TEST(X25519, Rfc7748Products) {
  EXPECT_EQ(Agreed("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
                   "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"),
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
  EXPECT_EQ(Agreed("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
                   "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493"),
            "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957");
}

// RFC 7748, section 6.1.
TEST(X25519, Rfc7748Agreement) {
  constexpr char kAlice[] = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
  constexpr char kBob[] = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
  constexpr char kAlicePublic[] = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
  constexpr char kBobPublic[] = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
  constexpr char kShared[] = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
  ASSERT_OK_AND_ASSIGN(const AgreementKey alice, PrivateOf(kAlice));
  ASSERT_OK_AND_ASSIGN(const AgreementKey bob, PrivateOf(kBob));
  EXPECT_EQ(HexOf(alice.public_key()), kAlicePublic);
  EXPECT_EQ(HexOf(bob.public_key()), kBobPublic);
  EXPECT_EQ(Agreed(kAlice, kBobPublic), kShared);
  EXPECT_EQ(Agreed(kBob, kAlicePublic), kShared);
}

// A private key that travels as shares is the same key afterwards.
TEST(X25519, PrivateBytesMakeTheSameKeyAgain) {
  ASSERT_OK_AND_ASSIGN(const AgreementKey key, AgreementKey::Generate());
  ASSERT_OK_AND_ASSIGN(const SecretBytes bytes, key.PrivateBytes());
  ASSERT_OK_AND_ASSIGN(const AgreementKey again, AgreementKey::FromPrivate(bytes.span().first<32>()));
  EXPECT_EQ(again.public_key(), key.public_key());
}

// All points whose order divides 8, as bytes that are below and above the prime (RFC 7748, section 7).
TEST(X25519, Agree_LowOrder_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const AgreementKey key, AgreementKey::Generate());
  const std::string ones(58, 'f');
  for (const std::string& point : {std::string(64, '0'), "01" + std::string(62, '0'),
                                   std::string("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
                                   std::string("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
                                   "ec" + ones + "ff7f", "ed" + ones + "ff7f", "ee" + ones + "ff7f"}) {
    ASSERT_EQ(point.size(), 64u);
    PublicKey bytes = KeyOf(point);
    EXPECT_THAT(key.Agree(bytes).status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("low order"))) << point;
    bytes.back() |= 0x80;  // a bit that X25519 passes over
    EXPECT_THAT(key.Agree(bytes).status(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("low order"))) << point;
  }
}

// RFC 5869, appendix A, cases 1 and 3.
TEST(DeriveKey, Rfc5869) {
  const std::vector<uint8_t> secret(22, 0x0b), info = Bytes("f0f1f2f3f4f5f6f7f8f9");
  const std::string info_text(info.begin(), info.end());
  ASSERT_OK_AND_ASSIGN(const SecretBytes first, DeriveKey(secret, info_text, 42, Bytes("000102030405060708090a0b0c")));
  EXPECT_EQ(HexOf(first.span()),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  ASSERT_OK_AND_ASSIGN(const SecretBytes third, DeriveKey(secret, "", 42));
  EXPECT_EQ(HexOf(third.span()),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

// Of P-256, from the coordinates of a public key's point.
KeyHandle PublicP256(std::string_view x, std::string_view y) {
  std::vector<uint8_t> point{4};
  for (const std::string_view coordinate : {x, y}) {
    const std::vector<uint8_t> bytes = Bytes(coordinate);
    point.insert(point.end(), bytes.begin(), bytes.end());
  }
  char group[] = "P-256";
  OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
                             OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()),
                             OSSL_PARAM_construct_end()};
  const OpenSslHandle<EVP_PKEY_CTX, EVP_PKEY_CTX_free> context(EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  EVP_PKEY_fromdata_init(context.get());
  EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters);
  return KeyHandle(key);
}

std::string SignatureDer(std::string_view r, std::string_view s) {
  const auto number = [](std::string_view hex) {
    BIGNUM* made = nullptr;
    BN_hex2bn(&made, std::string(hex).c_str());
    return made;
  };
  const OpenSslHandle<ECDSA_SIG, ECDSA_SIG_free> signature(ECDSA_SIG_new());
  ECDSA_SIG_set0(signature.get(), number(r), number(s));
  uint8_t* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  std::string text(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return text;
}

// RFC 6979, appendix A.2.5, with SHA-256: signatures of "sample" and "test" by one key.
TEST(Signature, Rfc6979SignaturesVerify) {
  const KeyHandle key = PublicP256("60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6",
                                   "7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299");
  ASSERT_NE(key, nullptr);
  const std::string sample = SignatureDer("EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716",
                                          "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8");
  const std::string test = SignatureDer("F1ABB023518351CD71D881567B1EA663ED3EFCF6C5132B354F28D3B0B7D38367",
                                        "019F4113742A2B14BD25926B49C649155F267E60D3814B4C0CC84250E46F0083");
  EXPECT_OK(CheckSigningKey(key.get(), "the vector"));
  EXPECT_TRUE(IsSignature(key.get(), "sample", sample));
  EXPECT_TRUE(IsSignature(key.get(), "test", test));
  EXPECT_FALSE(IsSignature(key.get(), "test", sample));
  EXPECT_FALSE(IsSignature(key.get(), "sample", sample.substr(0, sample.size() - 1)));
  EXPECT_FALSE(IsSignature(key.get(), "sample", ""));
}

TEST(Signature, SignsWhatItsPublicKeyVerifiesAndNoOther) {
  ASSERT_OK_AND_ASSIGN(const KeyHandle key, MakeKey());
  ASSERT_OK_AND_ASSIGN(const KeyHandle other, MakeKey());
  ASSERT_OK_AND_ASSIGN(std::string signature, SignBytes(key.get(), "a set"));
  EXPECT_LE(signature.size(), kMostSignatureBytes);
  EXPECT_TRUE(IsSignature(key.get(), "a set", signature));
  EXPECT_FALSE(IsSignature(key.get(), "another set", signature));
  EXPECT_FALSE(IsSignature(other.get(), "a set", signature));
  signature.back() = static_cast<char>(signature.back() ^ 1);
  EXPECT_FALSE(IsSignature(key.get(), "a set", signature));
}

TEST(Signature, CheckSigningKey_AnotherKind_IsRefused) {
  const KeyHandle key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  EXPECT_THAT(CheckSigningKey(key.get(), "ward 7"),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("the key of 'ward 7' is Ed25519")));
}

// SP 800-38A, F.5.5: the vector's counter is another than this protocol's 0, so its keystream is found by the cipher
// itself; what is ours is checked against it below.
TEST(MaskAdder, IsCounterModeFromZero) {
  const std::vector<uint8_t> key = Bytes("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
  const std::vector<uint8_t> counter = Bytes("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
  const std::vector<uint8_t> plain = Bytes(
      "6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51"
      "30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710");
  const OpenSslHandle<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free> cipher(EVP_CIPHER_CTX_new());
  const auto encrypt = [&](const uint8_t* from, const std::vector<uint8_t>& input) {
    std::vector<uint8_t> output(input.size());
    int written = 0;
    EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_ctr(), nullptr, key.data(), from);
    EVP_EncryptUpdate(cipher.get(), output.data(), &written, input.data(), static_cast<int>(input.size()));
    return output;
  };
  EXPECT_EQ(HexOf(encrypt(counter.data(), plain)),
            "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
            "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6");

  // 40,001 words: two blocks and a part of one.
  std::vector<uint32_t> words(40'001);
  std::iota(words.begin(), words.end(), 7);
  const std::vector<uint8_t> stream =
      encrypt(std::vector<uint8_t>(16).data(), std::vector<uint8_t>(words.size() * sizeof(uint32_t)));
  std::vector<uint32_t> expected(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    expected[i] = words[i];
    for (size_t byte = 0; byte < 4; ++byte) expected[i] += static_cast<uint32_t>(stream[4 * i + byte]) << (8 * byte);
  }
  const std::vector<uint32_t> before = words;
  ASSERT_OK_AND_ASSIGN(MaskAdder adder, MaskAdder::Create(std::as_writable_bytes(std::span(words)), 32));
  const std::span<const uint8_t, 32> key_bytes = std::span<const uint8_t>(key).first<32>();
  ASSERT_OK(adder.Add(key_bytes, MaskSign::kAdd));
  ASSERT_OK(adder.Finish());
  EXPECT_EQ(words, expected);
  ASSERT_OK(adder.Add(key_bytes, MaskSign::kSubtract));
  ASSERT_OK(adder.Finish());
  EXPECT_EQ(words, before);

  std::vector<uint64_t> long_words(3, 1);
  ASSERT_OK_AND_ASSIGN(MaskAdder long_adder, MaskAdder::Create(std::as_writable_bytes(std::span(long_words)), 64));
  ASSERT_OK(long_adder.Add(key_bytes, MaskSign::kAdd));
  ASSERT_OK(long_adder.Finish());
  uint64_t first = 0;
  for (size_t byte = 0; byte < 8; ++byte) first |= static_cast<uint64_t>(stream[byte]) << (8 * byte);
  EXPECT_EQ(long_words[0], first + 1);

  ASSERT_OK_AND_ASSIGN(Keystream keystream, Keystream::Create(key_bytes));
  for (size_t i = 0; i < 3000; ++i) ASSERT_EQ(keystream.Word(), expected[i] - before[i]) << i;
}

// More masks than wait together, over words that end within a block.
TEST(MaskAdder, ManyMasks_AreTheSumOfEach) {
  constexpr size_t kMasks = 2 * MaskAdder::kMasksAtOnce + 3;
  const auto key = [](size_t i) {
    std::array<uint8_t, kCipherKeyBytes> bytes{};
    bytes[0] = static_cast<uint8_t>(i);
    return bytes;
  };
  const auto sign = [](size_t i) { return i % 3 == 0 ? MaskSign::kSubtract : MaskSign::kAdd; };
  std::vector<uint32_t> one_by_one(9'001, 3), together = one_by_one;
  ASSERT_OK_AND_ASSIGN(MaskAdder adder, MaskAdder::Create(std::as_writable_bytes(std::span(together)), 32));
  for (size_t i = 0; i < kMasks; ++i) {
    ASSERT_OK(adder.Add(key(i), sign(i)));
    ASSERT_OK_AND_ASSIGN(MaskAdder one, MaskAdder::Create(std::as_writable_bytes(std::span(one_by_one)), 32));
    ASSERT_OK(one.Add(key(i), sign(i)));
    ASSERT_OK(one.Finish());
  }
  ASSERT_OK(adder.Finish());
  EXPECT_EQ(together, one_by_one);
  EXPECT_THAT(MaskAdder::Create(std::as_writable_bytes(std::span(together)).first(6), 32),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// The GCM specification's cases 13, 14 and 16, which are NIST's too.
TEST(Seal, PublishedVectors) {
  const std::vector<uint8_t> zero_key(32), nothing, zeros(16);
  ASSERT_OK_AND_ASSIGN(const std::string empty, Seal(std::span<const uint8_t>(zero_key).first<32>(), "", nothing));
  EXPECT_EQ(HexOf(BytesOf(empty)), "530f8afbc74536b9a963b4f1c4cb738b");
  ASSERT_OK_AND_ASSIGN(const std::string block, Seal(std::span<const uint8_t>(zero_key).first<32>(), "", zeros));
  EXPECT_EQ(HexOf(BytesOf(block)), "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");

  const std::vector<uint8_t> key = Bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
  const std::vector<uint8_t> plain = Bytes(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657"
      "ba637b39");
  const std::vector<uint8_t> associated = Bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  const std::string associated_text(associated.begin(), associated.end());
  Nonce nonce;
  std::ranges::copy(Bytes("cafebabefacedbaddecaf888"), nonce.begin());
  const std::span<const uint8_t, 32> key_bytes = std::span<const uint8_t>(key).first<32>();
  ASSERT_OK_AND_ASSIGN(std::string sealed, Seal(key_bytes, associated_text, plain, nonce));
  EXPECT_EQ(
      HexOf(BytesOf(sealed)),
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0a"
      "bcc9f66276fc6ece0f4e1768cddf8853bb2d551b");
  ASSERT_OK_AND_ASSIGN(const SecretBytes opened, Unseal(key_bytes, associated_text, sealed, nonce));
  EXPECT_EQ(HexOf(opened.span()), HexOf(plain));

  EXPECT_THAT(Unseal(key_bytes, "another", sealed, nonce).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("does not open")));
  for (size_t at = 0; at < sealed.size(); ++at) {
    sealed[at] = static_cast<char>(sealed[at] ^ 1);
    EXPECT_THAT(Unseal(key_bytes, associated_text, sealed, nonce), StatusIs(StatusCode::kInvalidArgument)) << at;
    sealed[at] = static_cast<char>(sealed[at] ^ 1);
  }
  EXPECT_THAT(Unseal(key_bytes, "", "short"), StatusIs(StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace rivulet::secure
