# Compiler options shared by every target, ccache when it is there, sanitizers.

find_program(HEDDLE_CCACHE ccache)
if(HEDDLE_CCACHE)
  # Finds what another checkout compiled; takes precompiled headers by content.
  set(CMAKE_C_COMPILER_LAUNCHER
      env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${HEDDLE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

# The default of Release, -O3, costs a third more compile time than -O2 for
# nothing that a compiler's passes would notice.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")

# GCC's own headers use what they deprecate.
add_compile_options(-Wall -Wextra -Wno-unused-parameter
                    -Wno-deprecated-declarations)

if(HEDDLE_SANITIZE)
  add_compile_options(-fsanitize=${HEDDLE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HEDDLE_SANITIZE})
endif()
