// An authority in memory, and clients' certificates signed by it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "certificates/certificate.h"
#include "certificates/key.h"
#include "certificates/revocation_list.h"
#include "certificates/sign.h"

namespace rivulet::testing {

inline constexpr int64_t kHarnessNow = 1'800'000'000;

// An authority and the certificates that it signs.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name = "Heart study") : key_(MakeKey().value()) {
    certificate_ = SignAuthority(name, key_.get(), Days()).value();
  }
  static rivulet::Validity Days() { return {kHarnessNow - kSecondsPerDay, kHarnessNow + kSecondsPerDay}; }
  struct Holder {
    KeyHandle key;
    Certificate certificate;
  };
  Holder Issue(const std::string& id, Role role = Role::kClient) const {
    Holder holder{MakeKey().value(), {}};
    const std::vector<std::string> hosts = role->serves ? std::vector{id} : std::vector<std::string>();
    holder.certificate =
        SignSubject({.name = {role, id}, .hosts = hosts}, holder.key.get(), Days(), certificate_, key_.get()).value();
    return holder;
  }
  std::string RevocationListPem(const std::vector<std::string>& serials, int64_t number) const {
    Revocations revocations;
    for (const std::string& serial : serials) revocations[serial] = {.at = kHarnessNow};
    return SignRevocationList(revocations, kHarnessNow, number, certificate_, key_.get()).value();
  }
  const Certificate& certificate() const { return certificate_; }

 private:
  KeyHandle key_;
  Certificate certificate_;
};

// The authority shared by a program's tests.
inline const TestAuthority& SharedAuthority() {
  static const auto* const authority = new TestAuthority;
  return *authority;
}

// Certificates are made once per program: a thousand take a second.
inline const TestAuthority::Holder& HolderOf(const std::string& id) {
  static auto* const holders = new std::map<std::string, TestAuthority::Holder>;
  const auto found = holders->find(id);
  return found != holders->end() ? found->second : holders->emplace(id, SharedAuthority().Issue(id)).first->second;
}

}  // namespace rivulet::testing
