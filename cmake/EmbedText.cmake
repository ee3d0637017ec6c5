# Writes a C++ file that defines strings with the contents of text files.
# usage: cmake -DOUTPUT=F.cpp -DNAMESPACE=N -DENTRIES="NAME=FILE;..." -P EmbedText.cmake
set(text "// Made by cmake/EmbedText.cmake.\nnamespace ${NAMESPACE} {\n")
foreach(entry IN LISTS ENTRIES)
  string(REGEX MATCH "^([^=]*)=(.*)$" matched "${entry}")
  file(READ "${CMAKE_MATCH_2}" content)
  string(APPEND text "extern const char ${CMAKE_MATCH_1}[];\n"
    "const char ${CMAKE_MATCH_1}[] = R\"heddle(${content})heddle\";\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}} // namespace ${NAMESPACE}\n")
