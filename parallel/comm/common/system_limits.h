// The text of a system error, together with the limit of this process that may have caused it.

#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "ringrad/core/base/error.h"

namespace ringrad {

/// "Too many open files (RLIMIT_NOFILE is 1024)"; the text alone if no such limit is set.
inline std::string text_of_errno(int error) {
  struct Limit {
    int error;
    decltype(RLIMIT_NOFILE) resource;
    const char* name;
  };
  std::string text = std::strerror(error);
  for (const Limit& limit :
       {Limit{EMFILE, RLIMIT_NOFILE, "RLIMIT_NOFILE"}, Limit{ENOMEM, RLIMIT_AS, "RLIMIT_AS"},
        Limit{EAGAIN, RLIMIT_NPROC, "RLIMIT_NPROC"}, Limit{EFBIG, RLIMIT_FSIZE, "RLIMIT_FSIZE"}}) {
    rlimit set{};
    if (limit.error == error && getrlimit(limit.resource, &set) == 0 &&
        set.rlim_cur != RLIM_INFINITY)
      text += concat(" (", limit.name, " is ", set.rlim_cur, ')');
  }
  return text;
}

}  // namespace ringrad
