#include "certificates/revocation_record.h"

#include "certificates/key.h"
#include "engine/base/sha256.h"

namespace rivulet {
namespace {

constexpr size_t kDigits = 16;

}  // namespace

std::string RevocationRecord::Path() const {
  return fmt::format("{}.revoked-{}.crl", beside_, Sha256Of(key_).Hex().substr(0, kDigits));
}

// An invalid file counts as missing: its writer could have removed it as well.
void RevocationRecord::Recall(const Certificate& authority, const std::string& key) {
  key_ = key;
  last_.reset();
  if (beside_.empty()) return;
  const StatusOr<std::string> pem = fs_.ReadAll(Path());
  if (!pem.ok()) return;
  StatusOr<RevocationList> list = ReadRevocationList(*pem, Path(), authority);
  if (list.ok()) last_ = *std::move(list);
}

// Another process may have stored a newer one meanwhile, which stays.
void RevocationRecord::Keep(const std::string& pem, const Certificate& authority) {
  not_kept_.clear();
  if (beside_.empty()) return;
  if (const StatusOr<std::string> kept = fs_.ReadAll(Path()); kept.ok()) {
    const StatusOr<RevocationList> list = ReadRevocationList(*kept, Path(), authority);
    if (list.ok() && list->number >= last_->number) return;
  }
  const Status written = WriteFileAtomically(fs_, Path(), pem);
  if (written.ok()) return;
  not_kept_ = fmt::format("the revocation list {} is not kept, so that a restart would take an earlier one: {}",
                          last_->number, Message(written));
}

StatusOr<std::optional<RevocationList>> RevocationRecord::Take(const std::optional<std::string>& pem,
                                                               std::string_view where, const Certificate& authority) {
  RIVULET_ASSIGN_OR_RETURN(const std::string key, PublicKeyText(X509_get0_pubkey(authority.x509.get())));
  if (key != key_) Recall(authority, key);
  fault_.clear();
  const auto stays = [&](std::string_view why) {
    fault_ = fmt::format("{}; the list {} stays in force", why, last_->number);
    return last_;
  };
  if (!pem) return last_ ? stays(fmt::format("the revocation list '{}' was removed; put it back", where)) : last_;
  StatusOr<RevocationList> list = ReadRevocationList(*pem, where, authority);
  if (!list.ok()) {
    if (last_) return stays(Message(list.status()));
    return list.status();
  }
  if (last_ && list->number < last_->number) {
    return stays(fmt::format(
        "the revocation list '{}' has the number {} and is older than the last one, {}; take the newest revoked.crl "
        "from the authority's folder",
        where, list->number, last_->number));
  }
  if (last_ && list->number == last_->number && !(list->revocations == last_->revocations)) {
    return stays(
        fmt::format("the revocation list '{}' has the number of the last one, {}, and a different content; copy the "
                    "newest revoked.crl from the authority's folder",
                    where, list->number));
  }
  const bool newer = !last_ || list->number > last_->number;
  last_ = *std::move(list);
  if (newer || !not_kept_.empty()) Keep(*pem, authority);
  return last_;
}

}  // namespace rivulet
