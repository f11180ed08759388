// A client's half of SecAgg+.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "federated/secure/cohort.h"
#include "federated/secure/protocol.h"
#include "federated/secure/secret.h"

namespace rivulet::secure {

// Steps: 0 keys, 1 shares, 2 masked words, 3 agreement on the survivors, 4 shares of their seeds and of the others'
// mask keys. Each is answered once, in this order. Secrets are wiped after the last, and after a refusal.
class SecAggClient final : public SecureClient {
 public:
  static StatusOr<std::unique_ptr<SecAggClient>> Create(const ClientSetup& setup);

  StatusOr<std::string> Answer(int step, std::string_view input) override;
  Status Mask(std::string_view input, std::span<std::byte> words) override;

  const std::string& revocation_list() const override { return revocation_list_; }

 private:
  explicit SecAggClient(const ClientSetup& setup) : setup_(setup), session_context_(SessionContext(setup.session)) {}
  Status Begin(int step);
  void Wipe();
  StatusOr<std::string> AnnounceKeys();
  StatusOr<std::string> ShareSecrets(std::string_view input);
  Status OpenShares(std::string_view input);
  Status AddMasks(std::span<std::byte> words);
  StatusOr<std::string> AgreeOnSurvivors(std::string_view input);
  StatusOr<std::string> RevealShares(std::string_view input);
  // What `holder`, by its place among the holders, shared: 32 bytes of its seed's share and 32 of its mask key's.
  std::span<uint8_t> SharesFrom(size_t holder) { return held_.part(holder * 2 * kSecretSize, 2 * kSecretSize); }
  // A neighbour's place among the holders.
  size_t HolderOf(size_t neighbour) const;

  static constexpr size_t kSecretSize = 32;

  ClientSetup setup_;
  const Digest session_context_;
  int next_step_ = 0;
  Status refused_;
  std::optional<AgreementKey> channel_, mask_;
  CheckedCohort cohort_;
  std::string revocation_list_;
  SecretBytes seed_;
  SecretBytes channels_, masks_;  // what is agreed on with each neighbour, 32 bytes each
  SecretBytes held_;              // of each holder the shares of its seed and of its mask key
  std::vector<bool> shared_;      // holders whose shares are held
  std::vector<bool> survivors_;   // members, as signed at step 3
};

}  // namespace rivulet::secure
