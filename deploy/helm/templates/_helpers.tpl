{{/* Parts that the templates share. The tests render them with Helm where it is, and with a small reader of this language elsewhere
     (tests/deploy/chart_reader.py): it knows the functions that are used here and refuses others. */}}

{{- define "rivulet.image" -}}
{{ .image.repository }}:{{ .image.tag | default .version }}
{{- end }}

{{- define "rivulet.labels" -}}
app: {{ .app }}
app.kubernetes.io/name: rivulet
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "rivulet.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
# Without it the files of the secrets could not be read.
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "rivulet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "rivulet.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "rivulet.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .className }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .size }}}}
{{- end }}

{{- /* Of a Job's failures: exit status 2 is a wrong scenario or option, and an eviction is no failure. */}}
{{- define "rivulet.failures" -}}
rules:
  # Exit status 2: the scenario or an option is wrong, and no further pod would do better.
  - action: FailJob
    onExitCodes: {containerName: {{ . }}, operator: In, values: [2]}
  # The pod was evicted, or its node was lost.
  - action: Ignore
    onPodConditions: [{type: DisruptionTarget, status: "True"}]
{{- end }}
