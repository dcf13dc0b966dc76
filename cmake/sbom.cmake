# The wheel's bill of materials (PEP 770, CycloneDX): what is compiled into it, and the models with their checksums.
set(components "")
file(GLOB models CONFIGURE_DEPENDS asr/models/*.lm asr/models/*.onnx)
foreach(model IN LISTS models)
  file(SHA256 ${model} hash)
  get_filename_component(name ${model} NAME)
  set(license Apache-2.0)
  if(name MATCHES "\\.lm$")
    set(license "Apache-2.0 AND BSD-2-Clause")  # pronunciations of CMUdict
  endif()
  string(APPEND components ",
    {
      \"type\": \"machine-learning-model\",
      \"bom-ref\": \"asr/models/${name}\",
      \"name\": \"${name}\",
      \"version\": \"${PROJECT_VERSION}\",
      \"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"${hash}\"}],
      \"licenses\": [{\"expression\": \"${license}\"}]
    }")
endforeach()
configure_file(cmake/asr-stream.cdx.json.in asr-stream.cdx.json @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/asr-stream.cdx.json DESTINATION ${SKBUILD_METADATA_DIR}/sboms)
