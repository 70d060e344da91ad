#ifndef MILLRACE_CAPI_CALL_USER_H_
#define MILLRACE_CAPI_CALL_USER_H_

#include <utility>

namespace millrace::capi {

// The `user` of a callback. Ends it by its `destroy`, once, with the last that it was moved into.
class User {
 public:
  User(void* user, void (*destroy)(void* user)) noexcept : user_(user), destroy_(destroy) {}
  User(User&& other) noexcept
      : user_(other.user_), destroy_(std::exchange(other.destroy_, nullptr)) {}
  ~User() {
    if (destroy_ != nullptr) destroy_(user_);
  }
  User& operator=(User&&) = delete;

  void* get() const { return user_; }

 private:
  void* const user_;
  void (*destroy_)(void* user);
};

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_CALL_USER_H_
